"""`python -m adjit inspect FILE.adjit`: arguments, results and requirements of an exported program, without running any of it."""

from __future__ import annotations

import argparse
import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from adjit.ir.definition import Kind
from adjit.ir.errors import ExportError
from adjit.ir.parser import parse
from adjit.ir.types import SHORT_NAMES, TensorType
from adjit.runtime.exports.contents import Contents, read_program
from adjit.runtime.exports.interface_data import ExportedParameter, Interface, type_text
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
    if options.ir:
        print("\n".join(way.program.decode() for way in contents.ways))
        return 0
    digest = hashlib.sha256(options.file.read_bytes()).hexdigest()
    for title, lines in (("program", _program(contents, digest)), ("takes", _arguments(contents)), ("keeps", _own(contents)),
                         *_results(contents), ("code", _code(contents)),
                         ("operations", _operations(contents, options.file))):
        if lines:
            print(title)
            width = max(len(name) for name, _ in lines)
            for name, line in lines:
                print(f"  {name:<{width}}  {line}")
    return 0


Lines = Sequence[tuple[str, str]]


def _program(contents: Contents, digest: str) -> Lines:
    manifest, artifact = contents.manifest, contents.ways[0].artifact
    return [
        ("name", artifact.name), ("made by", f"adjit {manifest.adjit}, {', '.join(manifest.compiler)}"),
        ("system", manifest.system), *(("signature", _signature(way.interface)) for way in contents.ways),
        ("memory", f"{max(way.artifact.arena_bytes for way in contents.ways)} bytes of working memory, "
                   f"{_bytes(contents, 'argument')} of arguments{_bytes_a_row(contents)}, "
                   f"{_bytes(contents, 'state')} of state, {_bytes(contents, 'constant')} of constants"),
        ("source", f"sha256 {manifest.source or 'not known'}"), ("file", f"sha256 {digest}")]


def _bytes(contents: Contents, source: str) -> int:
    rows = _per_row(contents)
    return sum(TensorType(SHORT_NAMES[param.dtype], param.shape).nbytes for param in _params(contents)
               if param.source == source and not rows[param.name])


def _bytes_a_row(contents: Contents) -> str:
    """What arguments with any number of rows take besides."""
    rows = _per_row(contents)
    types = [TensorType(SHORT_NAMES[param.dtype], (rows[param.name], *param.shape[1:])) for param in _params(contents) if rows[param.name]]
    return f" and {sum(type.nbytes for type in types)} a row" if types else ""


def _params(contents: Contents) -> Iterable[ExportedParameter]:
    """The parameters of all ways, by name."""
    params: dict[str, ExportedParameter] = {}
    for param in (param for way in contents.ways for param in way.interface.params):
        if param.name not in params or param.written:
            params[param.name] = param
    return params.values()


def _per_row(contents: Contents) -> dict[str, int]:
    """Elements along the first axis that a row takes, of each parameter; 0 of those without rows."""
    return {param.name: known.per_row for way in contents.ways
            for param, known in zip(way.interface.params, way.artifact.params, strict=True)}


def _signature(interface: Interface) -> str:
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
    rows = _per_row(contents)
    return [(param.name, type_text(param.dtype, param.shape, rows[param.name]) + (", overwritten" if param.written else "")
             + (", stored in the file" if param.name in contents.manifest.given else ""))
            for param in _params(contents) if param.source == "argument"]


def _own(contents: Contents) -> Lines:
    return [(param.name, f"{_type(param.dtype, param.shape)}, {param.source}")
            for param in _params(contents) if param.source not in ("argument", "rows")]


def _results(contents: Contents) -> list[tuple[str, Lines]]:
    found: list[tuple[str, Lines]] = []
    for number, way in enumerate(contents.ways):
        params = way.interface.params
        lines = [(name, type_text(result.dtype, result.shape, result.per_row)
                  + (f", in the memory of {params[result.param].name}" if result.param >= 0 else ""))
                 for name, result in zip(way.interface.results, way.artifact.results, strict=True)]
        found.append(("gives" if len(contents.ways) == 1 else f"way {number} gives", lines))
    return found


def _code(contents: Contents) -> Lines:
    codes = [(level, way.codes[level]) for way in contents.ways for level in contents.manifest.levels]
    return [(level, f"{len(code)} bytes, sha256 {hashlib.sha256(code).hexdigest()}") for level, code in codes]


def _operations(contents: Contents, path: Path) -> Lines:
    try:
        graphs = [parse(way.program.decode()) for way in contents.ways]
    except ValueError as error:
        raise ExportError(f"{path} is damaged: its graph cannot be read: {error}", hint="export the program again") from None
    counts = Counter(op.name for graph in graphs for op in graph.ops if op.definition.kind is not Kind.MEMORY)
    return [(name, str(count)) for name, count in counts.most_common()]


def _type(dtype: str, shape: Sequence[int]) -> str:
    return str(TensorType(SHORT_NAMES[dtype], tuple(shape)))
