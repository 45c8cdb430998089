"""Object code of LLVM text; of several modules at the same time, on threads of their own.

    emit_objects([Module(text), Module(another)], target, threads=2)

llvmlite takes one lock around each call, though LLVM needs none where each thread has a context and a code generator of its own. The two
calls that take long are therefore made past that lock.
"""

from __future__ import annotations

import ctypes
from collections import deque
from collections.abc import Collection, Sequence
from contextlib import ExitStack, suppress
from functools import cache
from typing import Any

from adjit.codegen.llvm.target import Target, make_machine
from adjit.codegen.process.fork_safety import no_fork
from adjit.codegen.process.off_main_thread import Task, check_cancelled, off_main_thread
from adjit.codegen.process.switch_interval import short_switch_interval
from adjit.ir.dataclass import dataclass

_machines: dict[tuple[Target, bool], list[Any]] = {}
"""Code generators that nobody uses at the moment, by whether they optimize: one works for one thread at a time."""


@dataclass(frozen=True, slots=True)
class Module:
    """The text of a module, and whether its code is to be quick, or quick to make."""

    text: str
    optimized: bool = True


class Emission:
    """Modules that become object code on threads of their own while others are still being written.

        with Emission(target, threads=2) as emission:
            emission.add(Module(text))          # another thread begins with it
            emission.add(Module(another))
            objects = emission.finish()         # the caller works too, and waits

    The threads, of which there are up to `threads` with the caller's, are gone when they find nothing more to do. What was not begun when
    the block is left is not done. `verify` has LLVM check the modules first.
    """

    def __init__(self, target: Target, verify: bool = False, threads: int = 1):
        self.target, self.verify, self.threads = target, verify, threads
        self._objects: list[bytes] = []
        self._waiting: deque[tuple[int, Module]] = deque()
        self._helpers: list[Task] = []
        self._errors: list[BaseException] = []
        self._blocks = ExitStack()

    def __enter__(self) -> Emission:
        if self.threads > 1:
            self._blocks.enter_context(no_fork())
            self._blocks.enter_context(short_switch_interval())
        return self

    def __exit__(self, *error: object) -> None:
        self._waiting.clear()
        self._blocks.close()

    def add(self, module: Module) -> int:
        """The module's number among all that are added."""
        number = len(self._objects)
        self._objects.append(b"")
        self._waiting.append((number, module))
        self._helpers = [helper for helper in self._helpers if not helper.is_done()]
        if len(self._helpers) + 1 < self.threads:
            self._begin()
        return number

    def finish(self, without: Collection[int] = ()) -> list[bytes]:
        """The object code of all modules, in order; empty for some that nobody wants any more, if nobody has begun them.

        Raises `RuntimeError` where a text is wrong.
        """
        for item in tuple(self._waiting):
            if item[0] in without:
                with suppress(ValueError):      # a thread took it
                    self._waiting.remove(item)
        with no_fork():
            self._work()
            for helper in self._helpers:
                helper.result()
        if self._errors:
            raise self._errors[0]
        return self._objects

    def _begin(self) -> None:
        """A thread that works."""
        helper = Task(self._work)
        with suppress(RuntimeError):        # the system has no thread to give, or the interpreter ends
            helper.begin()
            self._helpers.append(helper)

    def _work(self) -> None:
        while self._waiting and not self._errors:
            check_cancelled()
            try:
                number, module = self._waiting.popleft()
            except IndexError:      # another thread took it
                return
            try:
                self._objects[number] = _emit(module, self.target, self.verify)
            except BaseException as error:
                self._errors.append(error)


@off_main_thread
def emit_objects(modules: Sequence[Module], target: Target, verify: bool = False, threads: int = 1) -> list[bytes]:
    """The object code of each module, in order, made on up to so many threads; as `Emission`."""
    with Emission(target, verify, threads) as emission:
        for module in modules:
            emission.add(module)
        return emission.finish()


@off_main_thread
def emit_object(text: str, target: Target, verify: bool = False, promote: bool = False) -> bytes:
    """The object code of one module; as `emit_objects`. To `promote` it is to put variables that lie on the stack into registers."""
    with no_fork():
        return _emit(Module(text), target, verify, promote)


def warm_up(target: Target) -> None:
    """Go through LLVM once: the first module of a process takes 3 ms more than it would later."""
    if (target, True) not in _machines:
        emit_object("define void @begin() {\n  ret void\n}\n", target)


def _emit(module: Module, target: Target, verify: bool, promote: bool = False) -> bytes:
    from llvmlite.binding import ModuleRef
    from llvmlite.binding.context import ContextRef

    free = _machines.setdefault((target, module.optimized), [])
    try:
        machine = free.pop()
    except IndexError:
        machine = make_machine(target, module.optimized)
    source = f'target triple = "{machine.triple}"\n{module.text}'.encode()
    message = ctypes.c_char_p()
    context = _holding_gil("LLVMPY_ContextCreate")()      # its own, for it never forgets a number
    try:
        parsed = _without_gil("LLVMPY_ParseAssembly")(context, source, ctypes.byref(message))
        if message:
            raise RuntimeError(f"LLVM does not understand a module: {_take_message(message)}")
        if verify or promote:
            whole = ModuleRef(parsed, ContextRef(context))
            try:
                if verify:
                    whole.verify()
                if promote:
                    _promote(whole, machine)
            finally:
                whole._context.detach()
                whole.detach()
        buffer = _without_gil("LLVMPY_TargetMachineEmitToMemory")(machine, parsed, 1, ctypes.byref(message))
        if not buffer:
            raise RuntimeError(f"LLVM emits no code for a module: {_take_message(message)}")
        code = ctypes.string_at(_holding_gil("LLVMPY_GetBufferStart")(buffer), _holding_gil("LLVMPY_GetBufferSize")(buffer))
        _holding_gil("LLVMPY_DisposeMemoryBuffer")(buffer)
    finally:
        _without_gil("LLVMPY_ContextDispose")(context)     # and with it the module
    free.append(machine)
    return code


def _take_message(message: ctypes.c_char_p) -> str:
    """The text that LLVM has left there."""
    text = (message.value or b"").decode(errors="replace")
    _holding_gil("LLVMPY_DisposeString")(message)
    return text


def _promote(module: Any, machine: Any) -> None:
    """The one pass that text with variables needs: all others together take longer than code generation, and save a call some ns."""
    from llvmlite.binding import create_new_module_pass_manager, create_pass_builder, create_pipeline_tuning_options

    passes = create_new_module_pass_manager()
    passes.add_sroa_pass()
    passes.run(module, create_pass_builder(machine, create_pipeline_tuning_options(speed_level=1)))


@cache
def _without_gil(name: str) -> Any:
    """A function of llvmlite's library without llvmlite's lock; with it, where this llvmlite does not say where the library is."""
    return _function(name, ctypes.CDLL)


@cache
def _holding_gil(name: str) -> Any:
    """One that is over before another thread could have taken the interpreter's lock, which it keeps: to get it back would take longer."""
    return _function(name, ctypes.PyDLL)


def _function(name: str, library: type[ctypes.CDLL]) -> Any:
    from llvmlite.binding import ffi

    locked = getattr(ffi.lib, name)
    try:
        function = getattr(library(ffi.lib._name, handle=ffi.lib._handle), name)
    except AttributeError:
        return locked
    function.argtypes, function.restype = locked.argtypes, locked.restype
    return function
