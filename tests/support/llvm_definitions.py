"""Parser of LLVM text in tests into the builder's objects."""

from __future__ import annotations

import re

from adjit.codegen.llvm.module import Definition, Function

_HEAD = re.compile(r"define (?:(internal|hidden) )?(\S+) @([\w.]+)\((.*)\) ?(.*?) ?\{")


def definitions_of(text: str) -> tuple[Definition, ...]:
    """Return the functions and constants of a text, in order; declarations are left out."""
    found = []
    for part in re.split(r"(?m)^(?=define |@|declare |!)", text):
        if part.startswith("define"):
            found.append(_function(part.rstrip().removesuffix("}").rstrip("\n")))
        elif part.startswith(("@", "!")):
            name = part.split()[0].lstrip("@")
            found.append(Definition(name, part.rstrip(), set(re.findall(r"@([\w.]+)", part)) - {name}))
    return tuple(found)


def _function(text: str) -> Function:
    head, *lines = text.split("\n")
    match = _HEAD.match(head)
    assert match is not None, head
    linkage, result, name, parameters, attributes = match.groups(default="")
    lines = lines[1:] if lines[:1] == ["entry:"] else lines
    returned = lines.pop().removeprefix("  ret ") if lines[-1].startswith("  ret ") else None
    return Function(name, parameters, lines, result=result, returned=returned, linkage=linkage, attributes=attributes,
                    uses=re.findall(r"@([\w.]+)", "\n".join(lines)),
                    returns_early=any(line.startswith("  ret ") for line in lines))
