"""The communicator of this process, over which collective ops of programs go (`ir/ops/collectives.py`).

A program reaches MPI by a table, an array of integers that is an input of its graph: addresses of functions and handles of MPI's objects.
So no address is in the code, which may be cached on disk, and one program is right for every rank. There is one table in a process, and
its content is written once: programs traced before hold the same one.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import numpy as np

from adjit.ir.errors import DistributedError
from adjit.ir.host_functions import note_failure
from adjit.ir.lazy_module import LazyModule

if TYPE_CHECKING:
    import hashlib
else:
    hashlib = LazyModule("hashlib")

FIELDS = ("MPI_Allreduce", "MPI_Allgather", "MPI_Alltoall", "MPI_Bcast", "failed", "comm", "calls", "rank", "sum", "max", "min",
          "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8")
"""What the integers of a table are: functions of MPI, the function that notes a failure, the communicator, the address of two counters
(collectives begun, and ended) and of the history behind them, the rank, reductions, and types of elements."""

PLACES = {name: place for place, name in enumerate(FIELDS)}

REDUCTIONS = {"sum": "SUM", "max": "MAX", "min": "MIN"}
_TYPES = {"f4": "FLOAT", "f8": "DOUBLE", **{f"{kind}{size}": f"{word}{8 * size}_T" for kind, word in (("i", "INT"), ("u", "UINT"))
                                              for size in (1, 2, 4, 8)}}

MAX_COUNT = 2**31 - 1
"""Elements that a call of MPI takes."""


EVENTS, DIGEST, BY_PYTHON, SAMPLES = 2, 3, 4, 5
"""Words of `calls` behind the counters: the number of events, their digest, collectives that Python called, and samples.

Events are collectives, and ends of loops and branches that depend on values and hold some. Ranks that fit together have equal events.
"""

RECENT, SAMPLE_WORDS, PRIME = 8, 4, 0x100000001B3
"""Samples of the latest events; words of a sample; factor of the digest, that of the FNV hash.

A sample is a number of events, digest, `BY_PYTHON`, and the exclusive or of these, by which one that was read in the midst of its change is
known. One lies at the number of zeros that the number of events ends with, so of early events some are there for long, and one among the
latest ones behind those.
"""

ENTERED, LEFT = 0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F
"""Keys of the events at a loop or branch."""

_MASK = (1 << 64) - 1


def key_of(line: str) -> int:
    """Key of the event of a collective, for its line in a program (`ir/analysis/collective_order.py`)."""
    return int.from_bytes(hashlib.blake2b(line.encode(), digest_size=8).digest(), "little")


def element_of(dtype: np.dtype, moved: bool) -> tuple[str, int]:
    """Type of elements in the table, and how many make one number of `dtype`. What is only `moved` goes as integers of its size.

    >>> element_of(np.dtype(np.float32), moved=False), element_of(np.dtype(np.complex128), moved=True)
    (('f4', 1), ('u8', 2))
    """
    if not moved:
        return ("u1" if dtype.kind == "b" else f"{dtype.kind}{dtype.itemsize}"), 1
    return (f"u{dtype.itemsize}", 1) if dtype.itemsize <= 8 else ("u8", dtype.itemsize // 8)


class Communicator:
    """A communicator of mpi4py, or a world of one rank without MPI (`comm` is None). `calls` counts collectives begun, and ended, and
    holds what tells whether ranks run equal ones (`EVENTS`)."""

    def __init__(self) -> None:
        self.comm: Any = None
        self.rank, self.size = 0, 1
        self.table = np.zeros(len(FIELDS), np.int64)
        self.calls = np.zeros(SAMPLES + SAMPLE_WORDS * (64 + RECENT), np.int64)
        self.agreement: Any = None      # of the ranks on their programs (`runtime/distributed/agreement.py`)
        self._mpi: Any = None

    def connect(self, mpi: Any, comm: Any) -> None:
        """Go over `comm` from now on; `mpi` is the module `mpi4py.MPI`."""
        self._mpi, self.comm = mpi, comm
        self.rank, self.size = comm.rank, comm.size
        library = ctypes.CDLL(mpi.__file__)      # linked to the MPI that mpi4py uses, whichever it is
        values = {name: ctypes.cast(getattr(library, name), ctypes.c_void_p).value for name in FIELDS[:4]}
        values |= {"failed": ctypes.cast(_note_failure, ctypes.c_void_p).value, "comm": self._handle(comm),
                   "calls": self.calls.ctypes.data, "rank": self.rank}
        values |= {name: self._handle(getattr(mpi, constant)) for name, constant in (REDUCTIONS | _TYPES).items()}
        self.table[:] = [ctypes.c_int64(values[name] or 0).value for name in FIELDS]

    def _handle(self, holder: Any) -> int:
        """The handle of an object of mpi4py: a pointer or an int, which a register passes either way."""
        kind = ctypes.c_void_p if self._mpi._sizeof(type(holder)) == 8 else ctypes.c_uint32
        return kind.from_address(self._mpi._addressof(holder)).value or 0

    def text_of(self, code: int) -> str:
        """What MPI says of an error."""
        return str(self._mpi.Get_error_string(code))

    # -- collectives of arrays

    def all_reduce(self, x: np.ndarray, op: str) -> np.ndarray:
        """The reduction of the arrays of all ranks, element by element."""
        x, out = np.ascontiguousarray(x), np.empty(np.shape(x), x.dtype)
        sent, received = (array.view(np.uint8) if array.dtype.kind == "b" else array for array in (x.reshape(-1), out.reshape(-1)))
        self._call(f"all_reduce {x.dtype}{x.shape} {op}", lambda: self.comm.Allreduce(sent, received, getattr(self._mpi, REDUCTIONS[op])))
        return out

    def all_gather(self, x: np.ndarray) -> np.ndarray:
        """The arrays of all ranks, along a new first axis."""
        out = np.empty((self.size, *np.shape(x)), x.dtype)
        self._call(f"all_gather {x.dtype}{x.shape}", lambda: self.comm.Allgather(_bytes(np.ascontiguousarray(x)), _bytes(out)))
        return out

    def all_to_all(self, x: np.ndarray) -> np.ndarray:
        """Of each rank the slice along its first axis that is for this rank."""
        out = np.empty(np.shape(x), x.dtype)
        self._call(f"all_to_all {x.dtype}{x.shape}", lambda: self.comm.Alltoall(_bytes(np.ascontiguousarray(x)), _bytes(out)))
        return out

    def broadcast(self, x: np.ndarray, root: int) -> np.ndarray:
        """The array of rank `root`."""
        out = np.array(x, order="C")
        self._call(f"broadcast {x.dtype}{x.shape} {root}", lambda: self.comm.Bcast(_bytes(out), root))
        return out

    def note(self, key: int) -> None:
        """Note an event that Python makes; compiled code does the same (`note` in `codegen/native/collectives.py`)."""
        calls = self.calls
        number = int(calls[EVENTS]) + 1
        digest = _signed(((int(calls[DIGEST]) & _MASK ^ key) * PRIME) & _MASK)
        by_python = int(calls[BY_PYTHON]) + 1
        calls[EVENTS], calls[DIGEST], calls[BY_PYTHON] = number, digest, by_python
        for index in ((number & -number).bit_length() - 1, 64 + number % RECENT):
            begin = SAMPLES + SAMPLE_WORDS * index
            calls[begin:begin + SAMPLE_WORDS] = number, digest, by_python, number ^ digest ^ by_python

    def samples(self) -> dict[int, tuple[int, int]]:
        """Digest and number of collectives called by Python, by the number of events."""
        rows = self.calls[SAMPLES:].reshape(-1, SAMPLE_WORDS).tolist()
        return {number: (digest, by_python) for number, digest, by_python, check in rows if number and number ^ digest ^ by_python == check}

    def _call(self, line: str, run: Any) -> None:
        self.note(key_of(line))
        self.calls[0] += 1
        try:
            run()
        except self._mpi.Exception as error:
            raise DistributedError(f"MPI reports: {error.Get_error_string()}", hint="see what the other ranks say") from None
        finally:
            self.calls[1] += 1


def _signed(word: int) -> int:
    return word - (1 << 64) if word >> 63 else word


def _bytes(array: np.ndarray) -> np.ndarray:
    kind, _ = element_of(array.dtype, moved=True)
    return array.reshape(-1).view(f"<{kind}")


def _failed(code: int) -> None:
    note_failure(DistributedError(f"MPI reports: {WORLD.text_of(code)}", hint="see what the other ranks say"))


_note_failure = ctypes.CFUNCTYPE(None, ctypes.c_int32)(_failed)

WORLD = Communicator()
"""The communicator of this process."""
