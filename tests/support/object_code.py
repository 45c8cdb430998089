"""Undefined symbols of object code."""

from __future__ import annotations

import struct


def undefined_symbols(object_code: bytes) -> set[str]:
    """Return the symbols that an ELF file of x86-64 leaves undefined."""
    table, = struct.unpack_from("<Q", object_code, 40)
    size, count = struct.unpack_from("<HH", object_code, 58)
    sections = [struct.unpack_from("<IIQQQQII", object_code, table + size * i) for i in range(count)]
    found = set()
    for _, kind, _, _, begin, length, strings, _ in sections:
        for at in range(begin, begin + length, 24) if kind == 2 else ():
            name, _, _, section = struct.unpack_from("<IBBH", object_code, at)
            start = sections[strings][4] + name
            if section == 0 and name:
                found.add(object_code[start:object_code.index(b"\0", start)].decode())
    return found
