"""Object code of LLVM text; of several modules at the same time, on threads of their own.

    emit_objects([Module(text), Module(another)], target, threads=2)

llvmlite takes one lock around each call, though LLVM needs none where each thread has a context and a code generator of its own. The two
calls that take long are therefore made past that lock.
"""

from __future__ import annotations

import ctypes
import threading
from collections import deque
from collections.abc import Sequence
from functools import cache
from typing import Any

from adjit.codegen.forks import no_fork
from adjit.codegen.target import Target, make_machine
from adjit.ir.dataclass import dataclass

_machines: dict[tuple[Target, bool], list[Any]] = {}
"""Code generators that nobody uses at the moment, by whether they optimize: one works for one thread at a time."""


@dataclass(frozen=True, slots=True)
class Module:
    """The text of a module, and whether its code is to be quick, or quick to make."""

    text: str
    optimized: bool = True


def emit_objects(modules: Sequence[Module], target: Target, verify: bool = False, threads: int = 1) -> list[bytes]:
    """The object code of each module, in order, made on up to so many threads, which are gone afterwards.

    `verify` has LLVM check the modules first. Raises `RuntimeError` where a text is wrong.
    """
    objects = [b""] * len(modules)
    waiting = deque(range(len(modules)))
    errors: list[BaseException] = []

    def work() -> None:
        while waiting and not errors:
            try:
                place = waiting.popleft()
            except IndexError:      # another thread took it
                return
            try:
                objects[place] = _emit(modules[place], target, verify)
            except BaseException as error:
                errors.append(error)

    helpers = []
    with no_fork():         # for all of the threads: one that asked for itself would wait for a fork that waits for this one
        try:
            for number in range(1, min(threads, len(modules))):
                helper = threading.Thread(target=work, name=f"adjit compiler {number}")
                helper.start()
                helpers.append(helper)
        except RuntimeError:        # the system has no thread to give, or the interpreter ends
            pass
        work()
        for helper in helpers:
            helper.join()
    if errors:
        raise errors[0]
    return objects


def emit_object(text: str, target: Target, verify: bool = False, promote: bool = False) -> bytes:
    """The object code of one module; as `emit_objects`. To `promote` it is to put variables that lie on the stack into registers."""
    with no_fork():
        return _emit(Module(text), target, verify, promote)


def warm_up(target: Target) -> None:
    """Go through LLVM once: the first module of a process takes 3 ms more than it would later."""
    if (target, True) not in _machines:
        emit_object("define void @begin() {\n  ret void\n}\n", target)


def _emit(module: Module, target: Target, verify: bool, promote: bool = False) -> bytes:
    from llvmlite.binding import ModuleRef, create_context, ffi

    parse, emit = _unlocked("LLVMPY_ParseAssembly"), _unlocked("LLVMPY_TargetMachineEmitToMemory")
    free = _machines.setdefault((target, module.optimized), [])
    try:
        machine = free.pop()
    except IndexError:
        machine = make_machine(target, module.optimized)
    context = create_context()      # its own, for it never forgets a number
    with ffi.OutputString() as message:
        source = f'target triple = "{machine.triple}"\n{module.text}'.encode()
        with ModuleRef(parse(context, source, message), context) as parsed:
            if message:
                raise RuntimeError(f"LLVM does not understand a module: {message}")
            if verify:
                parsed.verify()
            if promote:
                _promote(parsed, machine)
            with ffi.OutputString() as problem:
                buffer = emit(machine, parsed, 1, problem)
                if not buffer:
                    raise RuntimeError(f"LLVM emits no code for a module: {problem}")
    code = ctypes.string_at(ffi.lib.LLVMPY_GetBufferStart(buffer), ffi.lib.LLVMPY_GetBufferSize(buffer))
    ffi.lib.LLVMPY_DisposeMemoryBuffer(buffer)
    free.append(machine)
    return code


def _promote(module: Any, machine: Any) -> None:
    """The one pass that text with variables needs: all others together take longer than code generation, and save a call some ns."""
    from llvmlite.binding import create_new_module_pass_manager, create_pass_builder, create_pipeline_tuning_options

    passes = create_new_module_pass_manager()
    passes.add_sroa_pass()
    passes.run(module, create_pass_builder(machine, create_pipeline_tuning_options(speed_level=1)))


@cache
def _unlocked(name: str) -> Any:
    """A function of llvmlite's library without llvmlite's lock; with it, where this llvmlite does not say where the library is."""
    from llvmlite.binding import ffi

    locked = getattr(ffi.lib, name)
    try:
        function = getattr(ctypes.CDLL(ffi.lib._name, handle=ffi.lib._handle), name)
    except AttributeError:
        return locked
    function.argtypes, function.restype = locked.argtypes, locked.restype
    return function
