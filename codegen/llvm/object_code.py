"""Object code of LLVM text. Several modules compile at the same time, each on its own thread.

    emit_objects([Module(text), Module(another)], target, threads=2)

llvmlite takes one lock around each call, though LLVM needs none if each thread has its own context and code generator. The two calls that
take long therefore bypass that lock.
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
"""Idle code generators, keyed by target and whether they optimize. A code generator works for one thread at a time."""


@dataclass(frozen=True, slots=True)
class Module:
    """The text of a module, and the choice between fast code and fast compilation."""

    text: str
    optimized: bool = True


class Emission:
    """Modules that compile on worker threads while later modules are still being written.

        with Emission(target, threads=2) as emission:
            emission.add(Module(text))          # another thread begins with it
            emission.add(Module(another))
            objects = emission.finish()         # the calling thread compiles too, then waits

    There are up to `threads` threads, the caller's included. A worker ends when no module is left. Modules that no thread has begun when
    the `with` block ends are dropped. `verify` has LLVM check the modules first.
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
        """Add a module. Returns its index among all modules added."""
        number = len(self._objects)
        self._objects.append(b"")
        self._waiting.append((number, module))
        self._helpers = [helper for helper in self._helpers if not helper.is_done()]
        if len(self._helpers) + 1 < self.threads:
            self._begin()
        return number

    def finish(self, without: Collection[int] = ()) -> list[bytes]:
        """The object code of all modules, in order. The entry of a module in `without` is empty if no thread has begun it.

        Raises `RuntimeError` if LLVM rejects a text.
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
        """Start a worker thread."""
        helper = Task(self._work)
        with suppress(RuntimeError):        # the system has no thread left, or the interpreter ends
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
    """The object code of each module, in order, compiled on up to `threads` threads; see `Emission`."""
    with Emission(target, verify, threads) as emission:
        for module in modules:
            emission.add(module)
        return emission.finish()


@off_main_thread
def emit_object(text: str, target: Target, verify: bool = False, promote: bool = False) -> bytes:
    """The object code of one module; see `emit_objects`. With `promote`, stack variables are put into registers (mem2reg)."""
    with no_fork():
        return _emit(Module(text), target, verify, promote)


@off_main_thread
def assembly_text(text: str, target: Target) -> str:
    """The assembly of one module, as its object code has it, for reports."""
    import llvmlite.binding as llvm

    with no_fork():
        machine = make_machine(target, True)
        module = llvm.parse_assembly(f'target triple = "{machine.triple}"\n{text}', llvm.create_context())
        found: str = machine.emit_assembly(module)
        return found


def warm_up(target: Target) -> None:
    """Compile a small module once: the first module of a process takes 3 ms more than later ones."""
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
    context = _holding_gil("LLVMPY_ContextCreate")()      # one context per module, since a context never frees its constants
    try:
        parsed = _without_gil("LLVMPY_ParseAssembly")(context, source, ctypes.byref(message))
        if message:
            raise RuntimeError(f"LLVM cannot parse a module: {_take_message(message)}")
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
            raise RuntimeError(f"LLVM failed to emit code for a module: {_take_message(message)}")
        code = ctypes.string_at(_holding_gil("LLVMPY_GetBufferStart")(buffer), _holding_gil("LLVMPY_GetBufferSize")(buffer))
        _holding_gil("LLVMPY_DisposeMemoryBuffer")(buffer)
    finally:
        _without_gil("LLVMPY_ContextDispose")(context)     # disposes of the module, too
    free.append(machine)
    return code


def _take_message(message: ctypes.c_char_p) -> str:
    """The text of an LLVM error message; frees the message."""
    text = (message.value or b"").decode(errors="replace")
    _holding_gil("LLVMPY_DisposeString")(message)
    return text


def _promote(module: Any, machine: Any) -> None:
    """Run mem2reg, the one pass that text with variables needs. All other passes take longer than code generation, and save a call some
    ns."""
    from llvmlite.binding import create_new_module_pass_manager, create_pass_builder, create_pipeline_tuning_options

    passes = create_new_module_pass_manager()
    passes.add_sroa_pass()
    passes.run(module, create_pass_builder(machine, create_pipeline_tuning_options(speed_level=1)))


@cache
def _without_gil(name: str) -> Any:
    """A function of llvmlite's library that bypasses llvmlite's lock; the locked function if this llvmlite does not expose its library."""
    return _function(name, ctypes.CDLL)


@cache
def _holding_gil(name: str) -> Any:
    """A function of llvmlite's library that is called with the GIL held: such a call ends before another thread could take the GIL, and
    getting the GIL back would take longer than the call."""
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
