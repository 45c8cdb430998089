"""The nearest known name, for messages about names that do not exist."""

from __future__ import annotations

from collections.abc import Iterable


def nearest(name: str, known: Iterable[str]) -> str:
    """Return the end of a message that names the nearest known name; empty if none is near.

    >>> nearest("stak", ["stack", "cat"]), nearest("nothing", ["stack", "cat"])
    ("; did you mean 'stack'?", '')
    """
    import difflib  # only errors need it

    near = difflib.get_close_matches(name, sorted(known), n=1, cutoff=0.7)
    return f"; did you mean {near[0]!r}?" if near else ""
