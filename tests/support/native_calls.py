"""Functions that are called until their calls go straight to machine code, and a check that they do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.compiler_threads import wait_for_compilers

import adjit
from adjit.codegen.fastcall import object_layout
from adjit.runtime.bound_function import BoundCompiledFunction
from adjit.runtime.compiled import CompiledFunction
from adjit.runtime.fastcall.callable_type import callable_type, fastcall_is_ready
from adjit.runtime.native.code import native_is_supported
from adjit.runtime.native.threads import TEAM_CODE

needs_entry = pytest.mark.skipif(not (native_is_supported() and object_layout.known()), reason="there is no native entry here")

X = np.arange(6.0).reshape(2, 3)
V = np.arange(3.0)

if object_layout.known():
    for kind in (CompiledFunction, BoundCompiledFunction):
        fastcall_is_ready(callable_type(kind), 1)      # otherwise it comes some calls later, as do the threads
    TEAM_CODE.get()


def hot(fun: Callable[..., Any], *args: Any, **kwargs: Any) -> CompiledFunction:
    """Compile a function, and call it until the fastcall entry has the program for these arguments."""
    function = fun if isinstance(fun, CompiledFunction) else adjit.compile(fun, backend="native")
    for _ in range(2):
        function(*args, **kwargs)
    wait_for_compilers()        # prepared by the first call of a process
    assert runs_natively(function, *args, **kwargs)
    return function


def runs_natively(function: CompiledFunction, *args: Any, **kwargs: Any) -> bool:
    """True if the entry runs this call of the function."""
    before = function._cache.record.hits
    function(*args, **kwargs)
    return function._cache.record.hits > before


def transpose(x):
    return x.T
