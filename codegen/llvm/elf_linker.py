"""Linker that loads x86-64 object code of exported programs into memory without LLVM, whose import alone takes longer.

    image = link_image(object_code, ("adjit_run",))
    image.addresses["adjit_run"]

The linker knows the subset that LLVM writes for exported programs: constants and position-independent code without mutable state, with
`memcpy`, `memset` and functions that SciPy exports (`codegen/llvm/external.py`) as the only external symbols.
Source: System V Application Binary Interface, AMD64 Architecture Processor Supplement, 4.4; ELF-64 Object File Format.
"""

from __future__ import annotations

import ctypes
import mmap
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, NamedTuple

from adjit.codegen.llvm.external import address_of, external_symbols
from adjit.ir.dataclass import dataclass

LIBC = ("memcpy", "memset")
"""Symbols of libc that the code may need."""

_RELOCATABLE, _X86_64 = 1, 62
_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION, _SYMBOL, _RELOCATION = struct.Struct("<IIQQQQIIQQ"), struct.Struct("<IBBHQQ"), struct.Struct("<QQq")
_SYMBOLS, _RELOCATIONS, _NO_BITS = 2, 4, 8
_WRITABLE, _IN_MEMORY = 1, 2
_FIRST_RESERVED = 0xFF00
_ABSOLUTE, _RELATIVE, _CALL, _RELATIVE_LONG = 1, 2, 4, 24
_BY_SLOT = (9, 41, 42)      # the distance to a slot that holds the address
_STUB = 16                  # a jump to the address in the slot behind it: jmp [rip + 2], two bytes of padding, the slot
_JUMP = b"\xff\x25\x02\x00\x00\x00\x66\x90"


class _Section(NamedTuple):
    name: int
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int
    entry_size: int


@dataclass(frozen=True, slots=True)
class LoadedImage:
    """Code in memory, which lives as long as this object, and the addresses of the requested symbols."""

    addresses: Mapping[str, int]
    nbytes: int
    memory: Any = field(repr=False)


def link_image(code: bytes, symbols: Sequence[str]) -> LoadedImage:
    """Link one object file. Raises `ValueError` if it is no object file for x86-64, or has a feature that this linker does not support."""
    try:
        return _link(code, symbols)
    except (struct.error, IndexError, OverflowError, OSError) as error:
        raise ValueError(f"the object code is damaged: {error}") from None


def _link(code: bytes, symbols: Sequence[str]) -> LoadedImage:
    magic, kind, machine, *_, sections_at, _, _, _, _, size, count, names_at = _HEADER.unpack_from(code)
    if magic[:6] != b"\x7fELF\x02\x01" or (kind, machine, size) != (_RELOCATABLE, _X86_64, _SECTION.size):
        raise ValueError("the file is no relocatable object file for x86-64")
    sections = [_Section(*_SECTION.unpack_from(code, sections_at + size * k)) for k in range(count)]
    names = sections[names_at]
    offsets: dict[int, int] = {}
    end = 0
    for number, section in enumerate(sections):
        if section.flags & _IN_MEMORY:
            if section.flags & _WRITABLE and not _text(code, names, section.name).startswith(".data.rel.ro"):
                raise ValueError(f"the object file has a writable data section, {_text(code, names, section.name)}")
            offsets[number] = end = -(-end // max(section.alignment, 1)) * max(section.alignment, 1)
            end += section.size
    stubs = -(-end // _STUB) * _STUB
    library = ctypes.CDLL(None)
    addresses = {name: ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0 for name in LIBC}
    addresses |= {name: address_of(name) for name in external_symbols(code)}
    memory = mmap.mmap(-1, stubs + _STUB * len(addresses), mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    for number, start in offsets.items():
        section = sections[number]
        if section.kind != _NO_BITS:
            content = code[section.offset:section.offset + section.size]
            if len(content) != section.size:
                raise ValueError("the object file is truncated")
            memory[start:start + section.size] = content
    for k, address in enumerate(addresses.values()):
        memory[stubs + _STUB * k:stubs + _STUB * (k + 1)] = _JUMP + address.to_bytes(8, "little")
    numbers = {name: k for k, name in enumerate(addresses)}
    (table,) = (section for section in sections if section.kind == _SYMBOLS)
    found = [_SYMBOL.unpack_from(code, table.offset + k * _SYMBOL.size) for k in range(table.size // _SYMBOL.size)]

    def offset_of(symbol: int) -> int:
        name, _, _, section, value, _ = found[symbol]
        if section in offsets:
            return offsets[section] + int(value)
        text = _text(code, sections[table.link], name)
        if section >= _FIRST_RESERVED or text not in numbers:
            raise ValueError(f"unresolved external symbol {text or '(unnamed)'}")
        return stubs + _STUB * numbers[text]

    for section in sections:
        if section.kind == _RELOCATIONS and section.info in offsets:
            _relocate(memory, base, offsets[section.info], code[section.offset:section.offset + section.size], offset_of, stubs)
    by_name = {_text(code, sections[table.link], entry[0]): k for k, entry in enumerate(found) if entry[3] in offsets}
    if missing := [name for name in symbols if name not in by_name]:
        raise ValueError(f"the object file does not define {', '.join(missing)}")
    if library.mprotect(ctypes.c_void_p(base), ctypes.c_size_t(len(memory)), mmap.PROT_READ | mmap.PROT_EXEC):
        raise ValueError("the system does not allow executable memory (mprotect failed)")
    return LoadedImage({name: base + offset_of(by_name[name]) for name in symbols}, len(code), memory)


def _relocate(memory: mmap.mmap, base: int, start: int, entries: bytes, offset_of: Callable[[int], int], stubs: int) -> None:
    """Apply the relocations of one section: write absolute addresses and relative distances."""
    for offset, info, addend in _RELOCATION.iter_unpack(entries):
        place, kind, symbol = start + offset, info & 0xFFFFFFFF, info >> 32
        target = offset_of(symbol)
        if kind == _ABSOLUTE:
            struct.pack_into("<Q", memory, place, base + target + addend)
        elif kind in (_RELATIVE, _CALL):
            struct.pack_into("<i", memory, place, target + addend - place)
        elif kind == _RELATIVE_LONG:
            struct.pack_into("<q", memory, place, target + addend - place)
        elif kind in _BY_SLOT and target >= stubs:
            struct.pack_into("<i", memory, place, target + _STUB // 2 + addend - place)
        else:
            raise ValueError(f"unsupported relocation type {kind}")


def _text(code: bytes, names: _Section, place: int) -> str:
    start = names.offset + place
    return code[start:code.index(b"\0", start)].decode()
