"""A compiled native program as plain data: everything besides its object code that its caller has to know.

The data can be written as JSON and needs no graph: it is what is kept on disk, and what is exported.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict

from adjit.codegen.llvm.target import LEVELS, TARGETS
from adjit.codegen.native.program_code import OP_SHIFT
from adjit.ir.dataclass import dataclass
from adjit.ir.deserialize import deserialize
from adjit.ir.errors import Location
from adjit.ir.types import SHORT_NAMES
from adjit.ir.version import VERSION


@dataclass(frozen=True, slots=True)
class Parameter:
    """An array that is passed: contiguous, row by row. `role` is that of the graph: "donated" and "updated" ones are written."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    role: str


@dataclass(frozen=True, slots=True)
class Result:
    """An array that comes back: in memory that the caller gave for it, or in that of donated parameter number `param` (else -1)."""

    dtype: str
    shape: tuple[int, ...]
    param: int


@dataclass(frozen=True, slots=True)
class IndexCheck:
    """What an op checks: its indices, int64, `space` ("arena", "param", "result") and `offset` say where, against an axis of `size`.
    Of an op within a loop or a branch this may be the whole of what it took a slice of; where it is not known, `space` is "".

    `start` is where they begin, in bytes from there. `place` is the user's file, line and function; None where they are not known.
    """

    op: str
    space: str
    offset: int
    shape: tuple[int, ...]
    axis: int
    size: int
    place: tuple[str, int, str] | None
    start: int = 0

    @property
    def location(self) -> Location | None:
        return None if self.place is None else Location(*self.place)


@dataclass(frozen=True, slots=True)
class Artifact:
    """What is known of a compiled program besides its code. `checks` is by the number of the op that `adjit_run` returns.

    `stack_bytes` are what a run takes of the stack of its thread.
    `work` is estimated nanoseconds on one thread, `calls` and `functions` are numbers of calls of steps and of different steps.
    `flush_subnormals` says whether subnormal numbers are zeros to it.
    """

    name: str
    target: str
    params: tuple[Parameter, ...]
    results: tuple[Result, ...]
    arena_bytes: int
    alignment: int
    stack_bytes: int
    checks: Mapping[int, IndexCheck]
    work: float
    calls: int
    functions: int
    flush_subnormals: bool = False
    version: str = VERSION

    @property
    def arrays(self) -> list[tuple[str, tuple[int, ...]]]:
        """Dtype and shape of each parameter, then of each result."""
        return [*((param.dtype, param.shape) for param in self.params), *((result.dtype, result.shape) for result in self.results)]

    def as_json(self) -> str:
        """The data as text; `artifact_of_json` reads it."""
        return json.dumps(asdict(self), separators=(",", ":"))


def artifact_of_json(text: str) -> Artifact:
    """The inverse of `Artifact.as_json`; raises `ValueError` where the text is not of that form, or says what cannot be."""
    artifact = deserialize(Artifact, json.loads(text))
    if any(dtype not in SHORT_NAMES or min(shape, default=0) < 0 for dtype, shape in artifact.arrays):
        raise ValueError("an array is of a kind that there is not")
    if min(artifact.arena_bytes, artifact.stack_bytes) < 0 or artifact.target not in _TARGETS:
        raise ValueError("a size or the target is none")
    if any(not -1 <= result.param < len(artifact.params) for result in artifact.results):
        raise ValueError("a result lies in a parameter that is not there")
    return artifact


_TARGETS = {target.name for target in (*TARGETS.values(), *LEVELS.values())}


def nested_check(number: int, position: int) -> int:
    """The number of the check of an op within the loop or branch `number`, whose place among the ops there is `position`."""
    return ((position + 1) << _NESTED_SHIFT) + number


_NESTED_SHIFT = 32


def failed_check(status: int) -> tuple[int, int]:
    """The number of the op, and the position among its indices, that a number returned by `adjit_run` stands for.

    >>> failed_check((3 + 1) << 40 | (7 + 1))
    (3, 7)
    """
    return (status >> OP_SHIFT) - 1, (status & ((1 << OP_SHIFT) - 1)) - 1
