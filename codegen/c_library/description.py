"""Description of an exported program for C: the names and roles of its arrays."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from math import prod

from adjit.ir.dataclass import dataclass
from adjit.ir.types import SHORT_NAMES

C_TYPES = {"f32": "float", "f64": "double", "bool": "uint8_t", "c64": "float _Complex", "c128": "double _Complex",
           "f16": "uint16_t", "bf16": "uint16_t",       # their bits: C has no such type everywhere
           **{f"i{n}": f"int{n}_t" for n in (8, 16, 32, 64)},
           **{f"u{n}": f"uint{n}_t" for n in (8, 16, 32, 64)}}
"""The C type of an element, by dtype."""

KEYWORDS = frozenset((      # noqa: SIM905
    "auto break case char const continue default do double else enum extern float for goto if inline int long register restrict return "
    "short signed sizeof static struct switch typedef union unsigned void volatile while class new delete this template").split())


@dataclass(frozen=True, slots=True)
class CArray:
    """One array in C order, without gaps, aligned to its element size; complex numbers to that of their parts.

    `name` is the Python name (`params.w1`), `identifier` the C name (`params_w1`). An input that is `written` is also an output: it holds
    the new content after a run. For an output, `input` is the index of that input, else -1. Of an array with any number of rows, of which
    each takes `per_row` along the first axis, the first length in `shape` is `-per_row`, and elements and bytes are those of a row.
    """

    name: str
    identifier: str
    dtype: str
    shape: tuple[int, ...]
    written: bool = False
    input: int = -1

    @property
    def has_rows(self) -> bool:
        return min(self.shape, default=0) < 0

    @property
    def elements(self) -> int:
        return abs(prod(self.shape))

    @property
    def nbytes(self) -> int:
        return self.elements * SHORT_NAMES[self.dtype].itemsize


@dataclass(frozen=True, slots=True)
class CWay:
    """One way through the function, which is an `adjit_run` of its own. `params` has for each of its parameters the index of the input,
    or, below 0, of the constant (-1 is the first), `results` for each of its results the index of the output."""

    params: tuple[int, ...]
    results: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class CProgram:
    """A program for C: the prefix of its names, its description, its arrays, its working memory, and the processor levels that it has code
    for.

    `constants` are arrays that are part of the library. `ways` are the ways through the function, tried in this order.
    `flush_subnormals`: subnormal numbers count as zero.
    """

    prefix: str
    title: str
    inputs: tuple[CArray, ...]
    outputs: tuple[CArray, ...]
    arena_bytes: int
    alignment: int
    levels: tuple[str, ...]
    constants: tuple[bytes, ...] = ()
    ways: tuple[CWay, ...] = ()
    flush_subnormals: bool = False


def identifiers(names: Iterable[str]) -> list[str]:
    """C identifiers for names, all different.

    >>> identifiers(["params.w1", "params['w1']", "double", "0"])
    ['params_w1', 'params_w1_2', 'double_', 'n0']
    """
    taken: set[str] = set()
    found = []
    for name in names:
        plain = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_") or "value"
        plain = f"n{plain}" if plain[0].isdigit() else f"{plain}_" if plain in KEYWORDS else plain
        unique = plain
        number = 1
        while unique in taken:
            number += 1
            unique = f"{plain}_{number}"
        taken.add(unique)
        found.append(unique)
    return found


def prefix_of(stem: str) -> str:
    """The prefix of a library's C names, from the name of its file.

    >>> prefix_of("train-step.v2")
    'train_step_v2'
    """
    return identifiers([stem])[0]


def shape_text(shape: Sequence[int]) -> str:
    """`[784][512]`, or "a number".

    >>> shape_text((784, 512)), shape_text(())
    ('[784][512]', 'a number')
    """
    return "".join(f"[{size}]" if size >= 0 else "[rows]" if size == -1 else f"[{-size} * rows]" for size in shape) or "a number"


def bytes_text(content: bytes) -> str:
    r"""Bytes as the content of a string in LLVM text.

    >>> print(bytes_text(bytes((97, 34, 0))))
    a\22\00
    """
    return "".join(chr(byte) if 32 <= byte < 127 and byte not in b'"\\' else f"\\{byte:02X}" for byte in content)
