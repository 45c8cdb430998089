"""How much stack a module's functions need, read off its text: C programs have to give that much to the threads that call them."""

from __future__ import annotations

import re
from functools import cache

SPILLS = 2048
"""Allowed for each function on the way: registers that are saved, and values that do not fit into them."""

_FUNCTION = re.compile(r"^define [^@\n]*@([\w.$-]+)\((.*?)^\}", re.MULTILINE | re.DOTALL)
_TABLE = re.compile(r"^@([\w.$-]+) = internal constant (.*ptr @.*)$", re.MULTILINE)
_ALLOCA = re.compile(r"= alloca ([^,\n]+)(?:, i64 (\d+))?")
_NAME = re.compile(r"@([\w.$-]+)")
_ARRAY = re.compile(r"[\[<](\d+) x (.+)[\]>]")
_BYTES = {"double": 8, "float": 4, "half": 2, "ptr": 8}


def stack_bytes(text: str, entry: str) -> int:
    """The most stack that a call of `entry` takes, in whole pages of 4096; about, and rather too much than too little.

    >>> stack_bytes("define void @f() {\\n  %a = alloca [1000 x double], align 64\\n  ret void\\n}", "f")
    12288
    """
    own: dict[str, int] = {}
    named: dict[str, set[str]] = {}
    for name, body in _FUNCTION.findall(text):
        own[name] = SPILLS + sum(_size(kind.strip()) * int(count or 1) for kind, count in _ALLOCA.findall(body))
        named[name] = set(_NAME.findall(body))
    for name, content in _TABLE.findall(text):
        own[name], named[name] = SPILLS, set(_NAME.findall(content))    # as if it were the function that is handed it, which calls these

    @cache
    def deepest(name: str) -> int:
        return own[name] + max((deepest(other) for other in named[name] if other in own and other != name), default=0)

    return -(-deepest(entry) // 4096) * 4096


def _size(kind: str) -> int:
    array = _ARRAY.fullmatch(kind)
    if array:
        return int(array[1]) * _size(array[2])
    return _BYTES[kind] if kind in _BYTES else -(-int(kind[1:]) // 8)
