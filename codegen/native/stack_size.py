"""How much of a thread's stack machine code takes, read off its text."""

from __future__ import annotations

import re
from functools import cache

STEP_BYTES = 16 << 10
"""Allowed for a step and the program that calls it, besides what they ask for: registers that are saved, and values that do not fit into
them."""

_ALLOCA = re.compile(r"= alloca ([^,\n]+)(?:, i64 (\d+))?")
_ARRAY = re.compile(r"[\[<](\d+) x (.+)[\]>]")
_BYTES = {"double": 8, "float": 4, "half": 2, "ptr": 8}


def asked_bytes(text: str) -> int:
    r"""What all functions of a text together ask for.

    >>> asked_bytes("define void @f() {\n  %a = alloca [100 x <16 x float>], align 64\n  %b = alloca i8, i64 5000\n  ret void\n}")
    11400
    """
    return sum(_size(kind) * int(count or 1) for kind, count in _ALLOCA.findall(text))


@cache
def _size(kind: str) -> int:
    array = _ARRAY.fullmatch(kind)
    if array:
        return int(array[1]) * _size(array[2])
    return _BYTES[kind] if kind in _BYTES else -(-int(kind[1:]) // 8)
