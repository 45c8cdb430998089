"""Calls of functions of other libraries that take and return numbers: the elements of an elementwise op, one after the other."""

from __future__ import annotations

from collections.abc import Sequence

from adjit.codegen.llvm.builder import Builder
from adjit.codegen.llvm.external import KINDS, external_symbol
from adjit.codegen.vector_math.llvm_printer import llvm_type

_TYPES = {kind: type for type, kind in KINDS.items()}


def scalar_call(text: Builder, external: Sequence[str], types: Sequence[str], operands: Sequence[str], result: str) -> str:
    """The result of the function `external` (module, name, kinds) of numbers of the short dtype names `types`, converted as it needs."""
    module, name, kinds = external
    returned = _TYPES[kinds[0]]
    arguments = [(_TYPES[kind], _converted(text, types[k], operands[k], _TYPES[kind]) if k < len(types) else "0")
                 for k, kind in enumerate(kinds[1:])]
    found = text.call(returned, external_symbol(module, name, returned, [type for type, _ in arguments]), *arguments)
    if returned == llvm_type(result):
        return found
    return text.convert("fptrunc" if result == "f32" else "fpext", returned, found, llvm_type(result))


def _converted(text: Builder, type: str, operand: str, wanted: str) -> str:
    given = llvm_type(type)
    if given == wanted:
        return operand
    if wanted in ("double", "float"):
        code = {"f": "fptrunc" if wanted == "float" else "fpext", "u": "uitofp", "i": "sitofp"}[type[0]]
    else:
        code = "fptosi" if type[0] == "f" else "trunc" if int(given[1:]) > int(wanted[1:]) else "sext" if type[0] == "i" else "zext"
    return text.convert(code, given, operand, wanted)
