"""Artifact of a compiled native program: all the data that its caller needs besides the object code.

The data can be written as JSON and needs no graph. It is stored in the disk cache, and in exported programs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, field
from typing import TYPE_CHECKING

from adjit.codegen.cuda.target import SM_80, SM_90
from adjit.codegen.llvm.target import LEVELS, TARGETS
from adjit.codegen.native.program_code import OP_SHIFT
from adjit.ir.dataclass import dataclass
from adjit.ir.deserialize import deserialize
from adjit.ir.errors import Location
from adjit.ir.lazy_module import LazyModule
from adjit.ir.types import SHORT_NAMES
from adjit.ir.version import VERSION

if TYPE_CHECKING:
    import json
else:
    json = LazyModule("json")


@dataclass(frozen=True, slots=True)
class Parameter:
    """A contiguous, row-major array argument. `role` is its role in the graph: "donated" and "updated" arrays are written. Of an array of
    rows, which has any number of them, `per_row` is the length along the first axis that a row takes; 0 of another array."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    role: str
    per_row: int = 0


@dataclass(frozen=True, slots=True)
class Result:
    """An array result: in memory that the caller provides, or in the memory of donated parameter number `param` (else -1). `per_row`: as of
    parameters."""

    dtype: str
    shape: tuple[int, ...]
    param: int
    per_row: int = 0

    def shape_for(self, rows: int) -> tuple[int, ...]:
        """The shape for so many rows."""
        return (rows * self.per_row, *self.shape[1:]) if self.per_row else self.shape


@dataclass(frozen=True, slots=True)
class IndexCheck:
    """Check of an op's indices against an axis of `size`. The int64 indices lie in `space` ("arena", "param", "result") at `offset`. For an
    op within a loop or a branch, this may be the whole array of which the op took a slice, whose `shape` begins with minus the elements of
    a row where there is any number of rows. If the memory is not known, `space` is "", and `size` may be 0.

    `from_end`: negative indices count from the end.
    `start` is the byte offset of the indices from there. `place` is the user's file, line and function; None if they are not known.
    """

    op: str
    space: str
    offset: int
    shape: tuple[int, ...]
    axis: int
    size: int
    place: tuple[str, int, str] | None
    start: int = 0
    from_end: bool = False

    @property
    def location(self) -> Location | None:
        return None if self.place is None else Location(*self.place)


@dataclass(frozen=True, slots=True)
class GuardCheck:
    """Guard `number` of a trace: a scalar of `dtype` in memory as that of `IndexCheck`, which was `expected` then, as text."""

    number: int
    space: str
    offset: int
    start: int
    dtype: str
    expected: str
    place: tuple[str, int, str] | None

    @property
    def location(self) -> Location | None:
        return None if self.place is None else Location(*self.place)


@dataclass(frozen=True, slots=True)
class Artifact:
    """Description of a compiled program. `checks` and `guards` are keyed by the op number that `adjit_run` returns.

    `arena_bytes` is the working memory of a run: the arena of the graph, then the scratch memory of the calling thread.
    `work` is estimated nanoseconds on one thread, `calls` is the number of step calls, `functions` the number of different steps.
    `flush_subnormals`: subnormal numbers count as zero. `collectives` has a line for each one, in order. `count` is the number of the
    parameter that tells how many rows there are; -1 if shapes are fixed.
    """

    name: str
    target: str
    params: tuple[Parameter, ...]
    results: tuple[Result, ...]
    arena_bytes: int
    alignment: int
    checks: Mapping[int, IndexCheck]
    work: float
    calls: int
    functions: int
    flush_subnormals: bool = False
    guards: Mapping[int, GuardCheck] = field(default_factory=dict)
    collectives: tuple[str, ...] = ()
    count: int = -1
    version: str = VERSION

    @property
    def arrays(self) -> list[tuple[str, tuple[int, ...]]]:
        """Dtype and shape of each parameter, then of each result."""
        return [*((param.dtype, param.shape) for param in self.params), *((result.dtype, result.shape) for result in self.results)]

    def as_json(self) -> str:
        """The data as JSON text; `artifact_of_json` is the inverse."""
        return json.dumps(asdict(self), separators=(",", ":"))


def artifact_of_json(text: str) -> Artifact:
    """The inverse of `Artifact.as_json`. Raises `ValueError` if the text has another form, or values that are impossible."""
    artifact = deserialize(Artifact, json.loads(text))
    if any(dtype not in SHORT_NAMES or min(shape, default=0) < 0 for dtype, shape in artifact.arrays):
        raise ValueError("an array has an unknown dtype or a negative size")
    if artifact.arena_bytes < 0 or artifact.target not in _TARGETS:
        raise ValueError("a memory size is negative, or the target is unknown")
    if any(not -1 <= result.param < len(artifact.params) for result in artifact.results):
        raise ValueError("a result names a parameter that does not exist")
    return artifact


_TARGETS = {target.name for target in (*TARGETS.values(), *LEVELS.values(), SM_80, SM_90)}


def nested_check(number: int, position: int) -> int:
    """The number of the check of an op within the loop or branch op `number`; `position` is the inner op's index in `nested_ops`."""
    return ((position + 1) << _NESTED_SHIFT) + number


_NESTED_SHIFT = 32


def failed_check(status: int) -> tuple[int, int]:
    """Decode a status of `adjit_run`: the number of the op, and the position of the invalid index among the op's indices.

    >>> failed_check((3 + 1) << 40 | (7 + 1))
    (3, 7)
    """
    return (status >> OP_SHIFT) - 1, (status & ((1 << OP_SHIFT) - 1)) - 1
