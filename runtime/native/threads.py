"""The team of threads of this process, and the thread pools that native programs take as an argument.

    pool = pool_for(threads)        # None: the program runs on the calling thread alone
    pool = pool_at_hand(threads)    # the same pool, but without waiting for LLVM
    run(params, results, arena, pool.address if pool else 0)
"""

from __future__ import annotations

import ctypes
import os
from dataclasses import field

from adjit.codegen.native.threads.thread_pool import TEAM_BYTES, compile_pool, pool_text
from adjit.ir.dataclass import dataclass
from adjit.runtime.native.background_code import BackgroundCode, make_immortal

_LINE = 64


class ThreadTeam:
    """Memory of a team of threads, and its code; both stay until the process ends, since the threads do."""

    def __init__(self) -> None:
        self._memory = ctypes.create_string_buffer(TEAM_BYTES + _LINE)
        self.address = -(-ctypes.addressof(self._memory) // _LINE) * _LINE
        make_immortal(self._memory)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        """Reset the team in a forked child: its threads do not exist there, and a launch of another thread would never end."""
        ctypes.memset(self.address, 0, TEAM_BYTES)


class _PoolFields(ctypes.Structure):
    _fields_ = (("launch", ctypes.c_void_p), ("team", ctypes.c_void_p), ("threads", ctypes.c_int64))


@dataclass(frozen=True, slots=True)
class Pool:
    """A team, for programs that may use `threads` of its threads; `address` is the argument `%pool` of their entry."""

    team: ThreadTeam = field(repr=False)
    threads: int
    address: int
    launch: int
    _fields: _PoolFields = field(repr=False)


def make_pool(team: ThreadTeam, threads: int) -> Pool:
    """A pool that allows `threads` threads of a team, the calling thread included."""
    code = TEAM_CODE.get()
    fields = _PoolFields(code.address, team.address, threads)
    make_immortal(fields)
    return Pool(team, threads, ctypes.addressof(fields), code.address, fields)


def pool_for(threads: int) -> Pool | None:
    """The pool of this process's team for `threads` threads; None for one thread. Threads are created at the first launch.

    >>> pool_for(1) is None, pool_for(2).threads, pool_for(2) is pool_for(2)
    (True, 2, True)
    """
    if threads < 2:
        return None
    found = _pools.get(threads)
    return found if found is not None else _pools.setdefault(threads, make_pool(_TEAM, threads))


def pool_at_hand(threads: int, make: bool = True) -> Pool | None:
    """The pool if it is ready; else None, and a background thread begins to `make` it: for programs that finish alone before LLVM does."""
    if threads < 2 or TEAM_CODE.loaded is not None:
        return pool_for(threads)
    if make:
        TEAM_CODE.start()
    return None


TEAM_CODE = BackgroundCode(pool_text, compile_pool)
_TEAM = ThreadTeam()
_pools: dict[int, Pool] = {}
