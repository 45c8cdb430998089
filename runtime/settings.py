"""Environment variables that adjit reads, in one typed table.

    ADJIT_DUMP=out/ir python train.py        # every stage and kernel as files

A variable is read at each use of its setting, so a change within the process affects later compilations.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

from adjit.codegen.process.cores import usable_cores
from adjit.ir.dataclass import dataclass

T = TypeVar("T")

BACKENDS = ("auto", "native", "numba", "interpret")
"""Names of backends; "auto" stands for the best available one."""


@dataclass(frozen=True, slots=True)
class Setting(Generic[T]):
    """Setting of one environment variable: its name, the parser of its text, its default, and its description."""

    variable: str
    read: Callable[[str], T]
    default: Callable[[], T]
    doc: str

    def get(self) -> T:
        """The value in effect; raises `ValueError`, which names the variable, if its text is invalid.

        >>> THREADS.get() >= 1
        True
        """
        text = os.environ.get(self.variable, "")
        if not text.strip():
            return self.default()
        try:
            return self.read(text.strip())
        except ValueError as error:
            raise ValueError(f"environment variable {self.variable}={text!r}: {error}") from None


def _flag(text: str) -> bool:
    words = {"1": True, "true": True, "on": True, "yes": True, "0": False, "false": False, "off": False, "no": False}
    if text.lower() not in words:
        raise ValueError("expected 0 or 1")
    return words[text.lower()]


def _cards(text: str) -> str:
    kind, _, count = text.partition(":")
    if text != "auto" and (kind != "emulated" or (":" in text and not (count.isdecimal() and 1 <= int(count) <= 64))):
        raise ValueError("expected auto, emulated, or emulated:2 for two devices")
    return text


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise ValueError("expected an integer that is at least 1")
    return int(text)


_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def _bytes(text: str) -> int:
    number, unit = (text[:-1], text[-1].upper()) if text[-1].upper() in _UNITS else (text, "")
    if not number.isdecimal():
        raise ValueError("expected a number of bytes such as 268435456, 256M or 1G")
    return int(number) * _UNITS[unit]


def _one_of(*words: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text not in words:
            raise ValueError(f"expected one of {', '.join(words)}")
        return text

    return read


def _folder(text: str) -> Path | None:
    return Path(text).expanduser()


def _user_cache() -> Path | None:
    """`$XDG_CACHE_HOME/adjit`, else `~/.cache/adjit`; None if there is no home folder."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    try:
        return (Path(base) if os.path.isabs(base) else Path.home() / ".cache") / "adjit"
    except RuntimeError:
        return None


DUMP = Setting("ADJIT_DUMP", _folder, lambda: None, "folder that gets every stage of every compiled graph, and every kernel's source")
VERIFY = Setting("ADJIT_VERIFY", _flag, lambda: False, "1: check the graph's invariants after every pass, and LLVM's of native programs")
BACKEND = Setting("ADJIT_BACKEND", _one_of(*BACKENDS), lambda: "auto",
                  "backend for functions compiled with backend='auto': native, numba or interpret")
THREADS = Setting("ADJIT_THREADS", _positive, usable_cores, "threads a program may use; default: the cores this process may use, "
                  "and no more than OMP_NUM_THREADS")
CACHE_DIR = Setting("ADJIT_CACHE_DIR", _folder, _user_cache, "folder of compiled kernels; default: adjit in the user's cache folder")
CACHE_SIZE = Setting("ADJIT_CACHE_SIZE", _bytes, lambda: 256 << 20, "bytes the folder of compiled kernels may take; 0: no disk cache")
MATMUL = Setting("ADJIT_MATMUL", _one_of("auto", "avx512", "avx2", "sse2", "numpy"), lambda: "auto",
                 "machine code for matrix products: avx512, avx2 or sse2; numpy: NumPy's; default, auto: the best that this processor has")
TARGET = Setting("ADJIT_TARGET", _one_of("auto", "avx512", "avx2", "sse2"), lambda: "auto",
                 "processor that native programs are made for: avx512, avx2 or sse2; default, auto: the best that this processor is")
SIGNATURES = Setting("ADJIT_SIGNATURES", _positive, lambda: 128, "signatures a compiled function keeps; the least recently used goes first")
TRACEBACK = Setting("ADJIT_TRACEBACK", _one_of("user", "full"), lambda: "user",
                    "frames that errors show: user, those of your own code; full, those of adjit too")
ROLL_LOOPS = Setting("ADJIT_ROLL_LOOPS", _flag, lambda: True, "0: Python loops stay unrolled in compiled programs")
WAYS = Setting("ADJIT_WAYS", _positive, lambda: 64, "ways through its decisions on values that a function keeps for one signature")
CUDA = Setting("ADJIT_CUDA", _cards, lambda: "auto",
               "emulated: device='cuda' is a device that this processor emulates, to test without a card, emulated:2: there are two; "
               "default, auto: the cards that there are")
CUDA_SYNC = Setting("ADJIT_CUDA_SYNC", _flag, lambda: False,
                    "1: programs on a device wait for each kernel, so that an error of one names its line")
DEBUG = Setting("ADJIT_DEBUG", _flag, lambda: False, "1: programs compiled from now on say which matrices cannot be factored, and why")
NANS = Setting("ADJIT_NANS", _flag, lambda: False, "1: calls whose results have a NaN or an infinity raise an error that names the op")
QUIET = Setting("ADJIT_QUIET", _flag, lambda: False, "1: a first call that takes more than two seconds does not say so on the terminal")
DISABLE_JIT = Setting("NUMBA_DISABLE_JIT", _flag, lambda: False,
                      "1: kernels run as plain Python, by the numba backend, to step through them")

SETTINGS: tuple[Setting, ...] = (DUMP, VERIFY, BACKEND, THREADS, CACHE_DIR, CACHE_SIZE, MATMUL, TARGET, SIGNATURES, TRACEBACK, ROLL_LOOPS,
                                 WAYS, CUDA, CUDA_SYNC, DEBUG, NANS, QUIET, DISABLE_JIT)


def check() -> None:
    """Raise `ValueError` for a variable with an invalid value, and for an unknown variable with adjit's prefix."""
    for setting in SETTINGS:
        if os.environ.get(setting.variable):
            setting.get()
    for name in os.environ:
        if name.startswith(PREFIX) and name not in _OURS and os.environ[name]:
            import difflib  # only needed for an error

            (near,) = difflib.get_close_matches(name, _OURS, 1, 0.0)
            raise ValueError(f"environment variable {name} is not a setting of adjit: {near}? The settings are {', '.join(sorted(_OURS))}")


PREFIX = "ADJIT_"
_OURS = frozenset(setting.variable for setting in SETTINGS if setting.variable.startswith(PREFIX))
