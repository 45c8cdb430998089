"""`python -m adjit inspect FILE.adjit`: arguments, results and requirements of an exported program, without running any of it."""

from __future__ import annotations

import argparse
import hashlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from adjit.ir.definition import Kind
from adjit.ir.errors import ExportError
from adjit.ir.parser import parse
from adjit.ir.types import SHORT_NAMES, TensorType
from adjit.runtime.exports.archive import CODE, PROGRAM
from adjit.runtime.exports.contents import Contents, read_program
from adjit.runtime.exports.trees import TreeDescription


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `inspect` to the command line."""
    parser = commands.add_parser("inspect", help="contents of an exported program", description=__doc__)
    parser.add_argument("file", type=Path, metavar="FILE.adjit")
    parser.add_argument("--ir", action="store_true", help="print the planned graph, and nothing else")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print the contents of the file; raises `ExportError` if it is damaged."""
    contents = read_program(options.file)
    text = contents.parts[PROGRAM].decode()
    if options.ir:
        print(text)
        return 0
    digest = hashlib.sha256(options.file.read_bytes()).hexdigest()
    for title, lines in (("program", _program(contents, digest)), ("takes", _arguments(contents)), ("keeps", _own(contents)),
                         ("gives", _results(contents)), ("code", _code(contents)), ("operations", _operations(text, options.file))):
        if lines:
            print(title)
            width = max(len(name) for name, _ in lines)
            for name, line in lines:
                print(f"  {name:<{width}}  {line}")
    return 0


Lines = Sequence[tuple[str, str]]


def _program(contents: Contents, digest: str) -> Lines:
    manifest, artifact = contents.manifest, contents.artifact
    return [
        ("name", artifact.name), ("made by", f"adjit {manifest.adjit}, {', '.join(manifest.compiler)}"),
        ("system", manifest.system), ("signature", _signature(contents)),
        ("memory", f"{artifact.arena_bytes} bytes of working memory, {_bytes(contents, 'argument')} of arguments, "
                   f"{_bytes(contents, 'state')} of state, {_bytes(contents, 'constant')} of constants"),
        ("source", f"sha256 {manifest.source or 'not known'}"), ("file", f"sha256 {digest}")]


def _bytes(contents: Contents, source: str) -> int:
    params = contents.manifest.interface.params
    return sum(TensorType(SHORT_NAMES[param.dtype], param.shape).nbytes for param in params if param.source == source)


def _signature(contents: Contents) -> str:
    interface = contents.manifest.interface
    arguments = [f"{name}: {_form(form)}" for name, form in zip(interface.names, interface.arguments["tuple"], strict=True)]
    keywords = [f"{name}: {_form(form)}" for name, form in interface.keywords["dict"]]
    return f"({', '.join([*arguments, *(['*', *keywords] if keywords else [])])}) -> {_form(interface.result)}"


def _form(form: TreeDescription) -> str:
    """Format a tree in a few characters, with a star for each array.

    >>> _form({"tuple": [{"dict": [["w", {"leaf": 0}]]}, {"constant": 3}]})
    "({'w': *}, 3)"
    """
    ((kind, content),) = form.items()
    if kind == "leaf":
        return "*"
    if kind == "constant":
        return repr(content)
    if kind == "dict":
        return f"{{{', '.join(f'{key!r}: {_form(item)}' for key, item in content)}}}"
    if kind == "fields":
        return f"{content[0]}({', '.join(f'{name}={_form(item)}' for name, item in zip(*content[1:], strict=True))})"
    items = ", ".join(map(_form, content))
    return f"[{items}]" if kind == "list" else f"({items},)" if len(content) == 1 else f"({items})"


def _arguments(contents: Contents) -> Lines:
    return [(param.name, _type(param.dtype, param.shape) + (", overwritten" if param.written else "")
             + (", stored in the file" if param.name in contents.manifest.given else ""))
            for param in contents.manifest.interface.params if param.source == "argument"]


def _own(contents: Contents) -> Lines:
    return [(param.name, f"{_type(param.dtype, param.shape)}, {param.source}")
            for param in contents.manifest.interface.params if param.source != "argument"]


def _results(contents: Contents) -> Lines:
    params = contents.manifest.interface.params
    return [(name, _type(result.dtype, result.shape) + (f", in the memory of {params[result.param].name}" if result.param >= 0 else ""))
            for name, result in zip(contents.manifest.interface.results, contents.artifact.results, strict=True)]


def _code(contents: Contents) -> Lines:
    levels = [(level, contents.parts[CODE.format(level)]) for level in contents.manifest.levels]
    return [(level, f"{len(code)} bytes, sha256 {hashlib.sha256(code).hexdigest()}") for level, code in levels]


def _operations(text: str, path: Path) -> Lines:
    try:
        graph = parse(text)
    except ValueError as error:
        raise ExportError(f"{path} is damaged: its graph cannot be read: {error}", hint="export the program again") from None
    counts = Counter(op.name for op in graph.ops if op.definition.kind is not Kind.MEMORY)
    return [(name, str(count)) for name, count in counts.most_common()]


def _type(dtype: str, shape: Sequence[int]) -> str:
    return str(TensorType(SHORT_NAMES[dtype], tuple(shape)))
