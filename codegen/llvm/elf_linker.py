"""Linker that loads x86-64 object code into memory without LLVM, whose import alone takes longer than most programs.

    image = link_image((object_code,), ("adjit_run",))
    image.addresses["adjit_run"]

The linker knows the subset that LLVM writes for position-independent code. Exported programs have constants and no mutable state, and
`memcpy`, `memset` and functions of other packages (`codegen/llvm/external.py`) as the only external symbols. Code of this process and of
its cache may have state, several object files, and any symbol that the process has.
Source: System V Application Binary Interface, AMD64 Architecture Processor Supplement, 4.4; ELF-64 Object File Format.
"""

from __future__ import annotations

import ctypes
import mmap
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from functools import cache
from typing import Any, NamedTuple

from adjit.codegen.llvm.external import PREFIX, address_of
from adjit.ir.dataclass import dataclass

LIBC = ("memcpy", "memset")
"""Symbols of libc that exported programs may need."""

_RELOCATABLE, _X86_64 = 1, 62
_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION, _SYMBOL, _RELOCATION = struct.Struct("<IIQQQQIIQQ"), struct.Struct("<IBBHQQ"), struct.Struct("<QQq")
_SYMBOLS, _RELOCATIONS, _NO_BITS = 2, 4, 8
_WRITABLE, _IN_MEMORY = 1, 2
_UNDEFINED = 0
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


class _Symbol(NamedTuple):
    name: int
    info: int
    other: int
    section: int
    value: int
    size: int


@dataclass(frozen=True, slots=True)
class LoadedImage:
    """Code in memory, which lives as long as this object, and the addresses of the requested symbols."""

    addresses: Mapping[str, int]
    nbytes: int
    memory: Any = field(repr=False)


def link_image(codes: Sequence[bytes], symbols: Sequence[str], known: Mapping[str, int] | None = None) -> LoadedImage:
    """Link object files. Names that none of them defines have an address in `known`, or are symbols of this process. Without `known`, as
    for exported programs, only `LIBC` is, and there may be no mutable state.

    Raises `ValueError` if one is no object file for x86-64, or has a feature that this linker does not support, and `UnsupportedError` if
    it calls a package that is not installed.
    """
    try:
        return _Image([_ObjectFile(code) for code in codes], known).load(symbols)
    except (struct.error, IndexError, OverflowError, OSError) as error:
        raise ValueError(f"the object code is damaged: {error}") from None


class _ObjectFile:
    """Sections and symbols of an object file; `offsets` says where in the image those sections lie that have a place in memory."""

    def __init__(self, code: bytes):
        magic, kind, machine, *_, sections_at, _, _, _, _, size, count, names_at = _HEADER.unpack_from(code)
        if magic[:6] != b"\x7fELF\x02\x01" or (kind, machine, size) != (_RELOCATABLE, _X86_64, _SECTION.size):
            raise ValueError("the file is no relocatable object file for x86-64")
        self.code = code
        self.sections = [_Section(*_SECTION.unpack_from(code, sections_at + size * k)) for k in range(count)]
        self.offsets: dict[int, int] = {}
        self._names = self.sections[names_at]
        (table,) = (section for section in self.sections if section.kind == _SYMBOLS)
        self._strings = self.sections[table.link]
        self.symbols = [_Symbol(*_SYMBOL.unpack_from(code, table.offset + k * _SYMBOL.size)) for k in range(table.size // _SYMBOL.size)]

    def section_name(self, section: _Section) -> str:
        return self._text(self._names.offset + section.name)

    def symbol_name(self, symbol: _Symbol) -> str:
        return self._text(self._strings.offset + symbol.name)

    def content(self, section: _Section) -> bytes:
        content = self.code[section.offset:section.offset + section.size]
        if len(content) != section.size:
            raise ValueError("the object file is truncated")
        return content

    def _text(self, start: int) -> str:
        return self.code[start:self.code.index(b"\0", start)].decode()


class _Image:
    """Object files on their way into memory: code and constants, then a stub for each external symbol, then, in pages of their own, what
    the code may write to."""

    def __init__(self, files: Sequence[_ObjectFile], known: Mapping[str, int] | None):
        self._files, self._known = files, known
        self._stubs = _rounded_up(self._place(0, mutable=False), _STUB)
        self._defined = {file.symbol_name(symbol): file.offsets[symbol.section] + symbol.value for file in reversed(files)
                         for symbol in file.symbols if symbol.info >> 4 and symbol.section in file.offsets}
        needed = dict.fromkeys(file.symbol_name(symbol) for file in files for symbol in file.symbols[1:] if symbol.section == _UNDEFINED)
        self._externals = {name: self._address_of(name) for name in needed if name not in self._defined}
        end = self._stubs + _STUB * len(self._externals)
        self._read_only = _rounded_up(end, mmap.PAGESIZE)
        self._size = max(self._place(self._read_only, mutable=True), end)

    def _place(self, end: int, mutable: bool) -> int:
        """Give sections a place behind `end`; returns the end of the last one."""
        for file in self._files:
            for number, section in enumerate(file.sections):
                if not section.flags & _IN_MEMORY:
                    continue
                if bool(section.flags & _WRITABLE and not file.section_name(section).startswith(".data.rel.ro")) is not mutable:
                    continue
                if mutable and self._known is None:
                    raise ValueError(f"the object file has a writable data section, {file.section_name(section)}")
                file.offsets[number] = end = _rounded_up(end, max(section.alignment, 1))
                end += section.size
        return end

    def _address_of(self, name: str) -> int:
        if name.startswith(PREFIX):
            return address_of(name)
        address = (self._known or {}).get(name) or (_in_process(name) if self._known is not None or name in LIBC else 0)
        if not address:
            raise ValueError(f"unresolved external symbol {name or '(unnamed)'}")
        return address

    def load(self, symbols: Sequence[str]) -> LoadedImage:
        if missing := [name for name in symbols if name not in self._defined]:
            raise ValueError(f"the object file does not define {', '.join(missing)}")
        memory = mmap.mmap(-1, self._size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        for k, address in enumerate(self._externals.values()):
            memory[self._stubs + _STUB * k:self._stubs + _STUB * (k + 1)] = _JUMP + address.to_bytes(8, "little")
        for file in self._files:
            for number, start in file.offsets.items():
                section = file.sections[number]
                if section.kind != _NO_BITS:
                    memory[start:start + section.size] = file.content(section)
        places = {name: self._stubs + _STUB * k for k, name in enumerate(self._externals)} | self._defined
        for file in self._files:
            self._relocate(memory, base, file, places)
        if _protect()(base, self._read_only, mmap.PROT_READ | mmap.PROT_EXEC):
            raise ValueError("the system does not allow executable memory (mprotect failed)")
        return LoadedImage({name: base + self._defined[name] for name in symbols}, sum(len(file.code) for file in self._files), memory)

    def _relocate(self, memory: mmap.mmap, base: int, file: _ObjectFile, places: Mapping[str, int]) -> None:
        """Apply the relocations of a file: write absolute addresses and relative distances."""
        targets: dict[int, tuple[int, int | None]] = {}     # by symbol: its place, and its address if it is external
        for section in file.sections:
            if section.kind != _RELOCATIONS or section.info not in file.offsets:
                continue
            start = file.offsets[section.info]
            for offset, info, addend in _RELOCATION.iter_unpack(file.content(section)):
                place, kind, number = start + offset, info & 0xFFFFFFFF, info >> 32
                found = targets.get(number)
                if found is None:
                    found = targets[number] = self._target(file, file.symbols[number], places)
                target, external = found
                if kind == _ABSOLUTE:
                    struct.pack_into("<Q", memory, place, (base + target if external is None else external) + addend)
                elif kind == _CALL or (kind == _RELATIVE and external is None):
                    struct.pack_into("<i", memory, place, target + addend - place)
                elif kind == _RELATIVE_LONG and external is None:
                    struct.pack_into("<q", memory, place, target + addend - place)
                elif kind in _BY_SLOT and external is not None:
                    struct.pack_into("<i", memory, place, target + _STUB // 2 + addend - place)
                else:
                    raise ValueError(f"unsupported relocation type {kind}")

    def _target(self, file: _ObjectFile, symbol: _Symbol, places: Mapping[str, int]) -> tuple[int, int | None]:
        if symbol.section in file.offsets:
            return file.offsets[symbol.section] + symbol.value, None
        name = file.symbol_name(symbol)
        if symbol.section != _UNDEFINED or name not in places:
            raise ValueError(f"unresolved external symbol {name or '(unnamed)'}")
        return places[name], self._externals.get(name)


def _rounded_up(place: int, alignment: int) -> int:
    return -(-place // alignment) * alignment


@cache
def _in_process(name: str) -> int:
    """The address of a symbol of this process; 0 if there is none."""
    try:
        return ctypes.addressof(ctypes.c_char.in_dll(_process(), name))
    except ValueError:
        return 0


@cache
def _process() -> ctypes.CDLL:
    return ctypes.CDLL(None)


@cache
def _protect() -> Callable[[int, int, int], int]:
    return ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)(("mprotect", _process()))
