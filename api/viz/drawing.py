"""`graphviz.Digraph` of all pictures: its errors name a remedy if Graphviz is not installed."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from typing import Any

from adjit.ir.errors import RenderError, UnsupportedError
from adjit.tracer.user_location import find_user_location

INSTALL_DOT = "install Graphviz (apt install graphviz, brew install graphviz, conda install graphviz), or draw the DOT text elsewhere"


def new_digraph(name: str, **attributes: Any) -> Any:
    """Make an empty `graphviz.Digraph`; raises `UnsupportedError` if the package is not installed.

    Its `render`, `view` and `pipe` raise `RenderError`, which holds the DOT text, if the program `dot` is not found.
    """
    return _digraph_class()(re.sub(r"\W+", "_", name).strip("_") or "picture", **attributes)     # the name is also a file name


def escape(text: str) -> str:
    """Escape text for a label or a tooltip: in DOT, a backslash begins an escape."""
    return text.replace("\\", "\\\\")


@lru_cache(maxsize=1)
def _digraph_class() -> type:
    try:
        import graphviz
    except ImportError as error:
        raise UnsupportedError(f"the picture cannot be made: {error}", find_user_location(), hint="pip install 'adjit[viz]'") from None

    class Digraph(graphviz.Digraph):
        """`graphviz.Digraph` whose errors name a remedy if it cannot be drawn."""

        def render(self, *args: Any, **kwargs: Any) -> str:
            try:
                return super().render(*args, **kwargs)
            except graphviz.ExecutableNotFound as error:
                raise _no_dot(self.source, Path(self.filepath)) from error

        def pipe(self, *args: Any, **kwargs: Any) -> Any:
            try:
                return super().pipe(*args, **kwargs)
            except graphviz.ExecutableNotFound as error:
                raise _no_dot(self.source) from error

    return Digraph


def _no_dot(source: str, file: Path | None = None) -> RenderError:
    where = f"the picture's DOT text is in {file}" if file else "the picture's DOT text is its .source"
    return RenderError("the picture cannot be drawn: there is no program `dot` on the PATH", source, find_user_location(),
                       hint=f"{INSTALL_DOT}: {where}")
