"""Code generation in parts: the same code in several object files, threads that are gone afterwards, forks in the midst of it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, nullcontext, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.compiler_threads import wait_for_compilers
from support.llvm_definitions import definitions_of
from support.project import TESTS
from support.whole_pipeline import replace_passes

import adjit as aj
from adjit.codegen.llvm import object_code, partition_module
from adjit.codegen.llvm.link import CompiledObject, load
from adjit.codegen.llvm.object_code import Emission, Module, emit_objects
from adjit.codegen.llvm.partition_module import MIN_IDLE_PARTITION_LINES, MIN_PARTITION_LINES, ModuleText, cost_of
from adjit.codegen.llvm.target import TARGETS, Target, host_target, machine
from adjit.codegen.native.compile_program import (
    KERNEL_STORE,
    STEP_MODULE_LINES,
    KernelStore,
    OverlappedCodegen,
    compile_program_text,
    lower_program,
    make_artifact,
)
from adjit.codegen.native.program_code import SIGNATURE, StepCode
from adjit.codegen.process import fork_safety, switch_interval
from adjit.codegen.process.fork_safety import no_fork, no_fork_for
from adjit.codegen.process.switch_interval import short_switch_interval
from adjit.ir.graph import Graph
from adjit.runtime.caches.disk_cache import DiskCache
from adjit.runtime.native import code as native_code
from adjit.runtime.native.code import NativeCode, native_is_supported
from adjit.runtime.native.executable import NativeExecutable

pytestmark = pytest.mark.skipif(not native_is_supported(), reason="native programs are for CPython on Linux on x86-64")
RNG = np.random.default_rng(0)
ARRAYS = [RNG.standard_normal(shape).astype(np.float32) for shape in ((40, 70), (70, 50), (50,), (50, 30))]


def loss(x: np.ndarray, w: np.ndarray, b: np.ndarray, v: np.ndarray) -> np.ndarray:
    h = np.tanh(x @ w + b) @ v
    e = np.exp(h - h.max(axis=1, keepdims=True))
    return np.mean(np.log(e.sum(axis=1)) - np.log1p(np.abs(h)).mean(axis=1))


@pytest.fixture(scope="module")
def planned() -> Graph:
    function = aj.compile(aj.grad(loss, (0, 1, 2, 3)), backend="native")
    return function.program(function.fun, tuple(ARRAYS), {}).planned


@pytest.fixture(scope="module")
def text(planned: Graph) -> str:
    return lower_program(planned, machine_target()).text


def machine_target() -> Target:
    target = host_target()
    assert target is not None
    return target


def assembly(text: str) -> dict[str, str]:
    """The instructions of each function; constants by content, labels without the number of the function."""
    import llvmlite.binding as llvm

    made = machine(machine_target())
    lines = made.emit_assembly(llvm.parse_assembly(f'target triple = "{made.triple}"\n{text}', llvm.create_context()))
    constants = dict(re.findall(r"(?m)^(\.LCPI\d+_\d+):\n((?:\t\.(?:long|quad|byte|short|zero)[^\n]*\n)+)", lines))
    found = {}
    for name, body in re.findall(r"(?ms)^([A-Za-z_][\w.]*):\n(.*?)\.Lfunc_end\d+:", lines):
        body = re.sub(r"\.LCPI\d+_\d+", lambda match: constants[match[0]], body)
        found[name] = re.sub(r"(\.LBB|\.LJTI)\d+_", r"\1_", body)
    return found


def module_of(text: str) -> ModuleText:
    return ModuleText([line for line in text.splitlines() if line.startswith("declare ")], definitions_of(text))


@pytest.mark.parametrize("count", [2, 3, 7])
def test_the_code_is_the_same_in_parts(text: str, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition_module, "MIN_DISPATCH_FUNCTIONS", 1)
    *parts, dispatch = module_of(text).split(count)
    assert len(parts) == count
    assert all(part.optimized for part in parts)
    together: dict[str, str] = {}
    for part in parts:
        there = assembly(part.text)
        assert there
        assert not there.keys() & together.keys()
        together |= there
    calling = set(re.findall(r"(?m)^define [^\n]*@([\w.]+)\([^\n]*\"glue\" {", text))
    assert together == {name: code for name, code in assembly(text).items() if name not in calling}
    assert not dispatch.optimized
    assert assembly(dispatch.text).keys() == calling
    assert " = phi " not in dispatch.text       # no loops


def test_little_glue_stays_with_the_rest() -> None:
    program = aj.compile(lambda x: np.tanh(x), backend="native").program(np.tanh, (np.ones(99),), {})
    text = lower_program(program.planned, machine_target()).text
    (module,) = module_of(text).split(1)
    assert module.optimized
    assert sorted(module.text.splitlines()) == sorted(text.replace("define internal", "define hidden").splitlines())


def test_functions_that_are_made_already_are_declared(text: str) -> None:
    names = [name for name in re.findall(r"(?m)^define [^\n]*@([\w.]+)\(", text) if name.startswith("adjit_tile")]
    assert names
    texts = "".join(module.text for module in module_of(text).split(2, names))
    for name in names:
        assert re.search(rf"declare hidden void @{name}\(", texts)
        assert not re.search(rf"define [^\n]*@{name}\(", texts)


def test_kernels_of_products_are_begun_before_the_passes_are_over_and_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(KERNEL_STORE, "_made", {})
    monkeypatch.setenv("ADJIT_CACHE_SIZE", "0")
    events: list[str] = []
    add = object_code.Emission.add

    def add_and_tell(emission: Emission, module: Module) -> int:
        events.append(module.text)
        return add(emission, module)

    def run_and_tell(*args: Any) -> Any:
        result = run_passes(*args)
        events.append("the passes are over")
        return result

    monkeypatch.setattr(object_code.Emission, "add", add_and_tell)
    run_passes = replace_passes(monkeypatch, run_and_tell)
    kernel = re.compile(r"(?m)^define [^\n]*@(adjit_(?:tile|turn|copy|dots|multiply)[\w.]*)\(")

    aj.compile(aj.grad(loss, (1, 2, 3)), backend="native", threads=2)(*[array + 2 for array in ARRAYS])
    overlapped = kernel.findall("".join(events[:events.index("the passes are over")]))
    assert overlapped
    assert len(set(overlapped)) == len(overlapped)
    assert set(overlapped).isdisjoint(kernel.findall("".join(events[events.index("the passes are over"):])))

    events.clear()
    aj.compile(lambda *arrays: aj.grad(loss, (1, 2, 3))(*arrays)[0] * 2, backend="native", threads=2)(*ARRAYS)
    assert len(events) > 1
    assert set(overlapped).isdisjoint(kernel.findall("".join(events)))


def test_what_is_begun_when_depends_on_the_program_alone(planned: Graph) -> None:
    def compiled(first: float) -> CompiledObject:
        with OverlappedCodegen(machine_target(), 2, KernelStore()) as overlapped:
            overlapped.start_products(planned)
            time.sleep(first)
            return overlapped.finish(lower_program(planned, machine_target(), on_step=overlapped.start_step))

    assert compiled(0.0) == compiled(0.2)


def test_a_step_worth_several_modules_is_begun_in_several(monkeypatch: pytest.MonkeyPatch) -> None:
    def attention(x: np.ndarray, w: np.ndarray) -> np.ndarray:
        q, k, v = x @ w[0], x @ w[1], x @ w[2]
        e = np.exp(q @ k.transpose(0, 2, 1) / 8 - np.abs(x).max())
        return np.sum(np.tanh(e / e.sum(axis=2, keepdims=True) @ v))

    arrays = np.ones((8, 128, 64), np.float32), np.ones((3, 64, 64), np.float32)
    function = aj.compile(aj.grad(attention, (0, 1)), backend="native")
    planned = function.program(function.fun, arrays, {}).planned
    assert any(op.name == "tiled" for op in planned.ops)
    begun: list[str] = []
    add = Emission.add
    monkeypatch.setattr(Emission, "add", lambda emission, module: (begun.append(module.text), add(emission, module))[1])
    with OverlappedCodegen(machine_target(), 2, KernelStore()) as overlapped:
        lower_program(planned, machine_target(), on_step=overlapped.start_step)
    costs = [[function.cost for function in module_of(text).functions.values()] for text in begun]
    assert sum(map(sum, costs)) > 3 * STEP_MODULE_LINES
    assert all(sum(functions) < 2 * STEP_MODULE_LINES or len(functions) == 1 for functions in costs)
    assert len({name for text in begun for name in module_of(text).functions}) == sum(map(len, costs))


def test_constants_count_when_steps_are_begun_and_not_when_they_are_cut() -> None:
    constants = "".join(f"@c{k} = internal constant i64 {k}\n" for k in range(30))
    body = "".join(f"  %x{k} = add i64 %low, {k}\n" for k in range(STEP_MODULE_LINES - 40))
    text = f"{constants}define internal i64 @step_0({SIGNATURE}) nounwind {{\nentry:\n{body}  ret i64 0\n}}\n"
    step = definitions_of(text)
    assert module_of(text).functions["step_0"].cost < STEP_MODULE_LINES < cost_of(step)
    with OverlappedCodegen(machine_target(), 2, KernelStore()) as overlapped:
        overlapped.start_step(step, StepCode(step, 1, 1.0, frozenset(), {}))


def test_kernels_that_are_not_needed_after_all_are_no_part_of_the_program(planned: Graph) -> None:
    store = KernelStore()
    with OverlappedCodegen(machine_target(), 2, store) as overlapped:
        overlapped.start_products(planned)
        small = aj.compile(lambda x: np.tanh(x), backend="native").program(np.tanh, (np.ones(99),), {}).planned
        compiled = overlapped.finish(lower_program(small, machine_target(), on_step=overlapped.start_step))
    assert not compiled.extra_objects
    load(compiled)


def test_threads_end_where_a_program_is_given_up(planned: Graph) -> None:
    before = set(threading.enumerate())
    with suppress(KeyError), OverlappedCodegen(machine_target(), 2, KernelStore()) as overlapped:
        overlapped.start_products(planned)
        raise KeyError
    wait_for_compilers()
    assert set(threading.enumerate()) == before
    assert sys.getswitchinterval() > switch_interval.SWITCH_INTERVAL_US * 1e-6


def test_turns_are_short_while_any_thread_is_within() -> None:
    usual = sys.getswitchinterval()
    try:
        sys.setswitchinterval(0.02)
        with short_switch_interval():
            assert sys.getswitchinterval() == pytest.approx(switch_interval.SWITCH_INTERVAL_US * 1e-6)
            with short_switch_interval():
                pass
            assert sys.getswitchinterval() == pytest.approx(switch_interval.SWITCH_INTERVAL_US * 1e-6)
        assert sys.getswitchinterval() == 0.02
        with short_switch_interval():
            sys.setswitchinterval(0.01)         # the user's own choice stays
        assert sys.getswitchinterval() == 0.01
        sys.setswitchinterval(0.000125)         # shorter ones too
        with short_switch_interval():
            assert sys.getswitchinterval() == 0.000125
        assert sys.getswitchinterval() == 0.000125
        sys.setswitchinterval((switch_interval.SWITCH_INTERVAL_US + 0.5) * 1e-6)       # and the same one
        chosen = sys.getswitchinterval()
        with short_switch_interval():
            pass
        assert sys.getswitchinterval() == chosen
    finally:
        sys.setswitchinterval(usual)


def test_llvm_sees_no_progression_in_loops(text: str) -> None:
    loops = re.findall(r"(?:%i\d+ = phi i64|= phi ptr) \[[^\]]*, %before\d+\], \[(%[\w.]+),", text)
    assert loops
    assert set(loops) <= set(re.findall(r"(%[\w.]+) = freeze ", text))


def test_parts_are_of_about_equal_cost(text: str) -> None:
    lines = [part.text.count("\n") for part in module_of(text).split(2) if part.optimized]
    assert max(lines) < 1.3 * min(lines)


def test_small_modules_and_single_threads_have_one_part(text: str) -> None:
    assert module_of("define i64 @adjit_run() {\n  ret i64 0\n}\n").choose_partitions(8) == 1
    module = module_of(text)
    assert module.choose_partitions(1) == 1
    assert module.choose_partitions(2) in (2, 4)
    assert module.choose_partitions(1000) * MIN_IDLE_PARTITION_LINES <= cost_of(definitions_of(text))
    small = module_of("\n".join(f"define i64 @f{k}() {{\n{chr(10) * (MIN_PARTITION_LINES // 2)}  ret i64 0\n}}" for k in range(2)))
    assert [small.choose_partitions(2), small.choose_partitions(2, ["others"])] == [2, 1]      # others keep the other thread busy
    assert module.choose_partitions(1000, module.functions) == 1


def test_a_program_in_parts_has_the_bits_of_one_in_one_piece(planned: Graph, text: str) -> None:
    target, results = machine_target(), []
    code = lower_program(planned, target)
    artifact = make_artifact(planned, code, target)
    with OverlappedCodegen(target, 2, KernelStore()) as overlapped:
        overlapped.start_products(planned)
        parts = overlapped.finish(lower_program(planned, target, on_step=overlapped.start_step))
    assert len(parts.extra_objects) > 1
    for compiled in (compile_program_text(text, target, verify=True), parts):
        executable = NativeExecutable(NativeCode(load(compiled), artifact, "", ""), lambda: planned)
        results.append([np.asarray(result).tobytes() for result in executable.run(ARRAYS, ARRAYS)])
    assert results[0] == results[1]


def test_the_thread_pool_is_made_from_the_second_call_on() -> None:
    script = """
        import numpy as np, adjit as aj
        from adjit.runtime.native.threads import TEAM_CODE
        from adjit.runtime.warmup import WARM_UP
        from support.compiler_threads import wait_for_compilers
        WARM_UP.notify_cache_lookup(missed=True)       # else it may make the pool before the first call
        def loaded_after(size, calls):
            f = aj.compile(lambda x: np.tanh(x) * 2 + np.exp(-x * x), backend="native", threads=2)
            for _ in range(calls):
                f(np.ones(size))
            wait_for_compilers()
            return TEAM_CODE.loaded is not None
        print(loaded_after(10, 2), loaded_after(100_000, 1), loaded_after(100_000, 2))
    """
    assert run(script) == "False False True"


def test_a_long_program_waits_for_the_thread_pool() -> None:
    script = """
        import numpy as np, adjit as aj
        from adjit.runtime.native.threads import TEAM_CODE
        aj.compile(lambda x: x @ x, backend="native", threads=2)(np.ones((1600, 1600), np.float32))
        print(TEAM_CODE.loaded is not None)
    """
    assert run(script) == "True"


def test_the_thread_pool_of_a_large_graph_is_begun_before_the_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[str] = []
    monkeypatch.setenv("ADJIT_CACHE_SIZE", "0")
    monkeypatch.setattr(native_code.TEAM_CODE, "start", lambda: begun.append("pool"))
    run_passes = replace_passes(monkeypatch, lambda *args: begun.append("passes") or run_passes(*args))

    def begun_first(size: int, threads: int) -> str:
        begun.clear()
        aj.compile(lambda x: x @ x, backend="native", threads=threads).ir("planned", np.ones((size, size), np.float32))
        return begun[0]

    assert (begun_first(10, 2), begun_first(1000, 1), begun_first(1000, 2)) == ("passes", "passes", "pool")


def test_one_thread_asked_for_is_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    gradient = aj.grad(loss, (0, 1))
    wait_for_compilers()        # `grad` by itself may use more, and begins to prepare
    emitted_by = []
    emit = object_code._emit
    monkeypatch.setattr(object_code, "_emit", lambda *args: emitted_by.append(threading.get_ident()) or emit(*args))
    monkeypatch.setenv("ADJIT_CACHE_SIZE", "0")
    aj.compile(gradient, backend="native", threads=1)(*[array + 1 for array in ARRAYS])
    assert len(emitted_by) == 1     # and the main thread waits for it


def test_no_thread_stays(text: str) -> None:
    before = set(threading.enumerate())
    emit_objects(module_of(text).split(4), machine_target(), threads=3)
    assert set(threading.enumerate()) == before


def test_what_is_wrong_in_one_part_is_told() -> None:
    before = set(threading.enumerate())
    modules = [Module("define i64 @f() {\n  ret i64 0\n}"), Module("define i64 @g() {\n  ret i64 %nothing\n}")]
    with pytest.raises(RuntimeError, match="nothing"):
        emit_objects(modules, TARGETS["sse2"], threads=2)
    assert set(threading.enumerate()) == before


def test_several_object_files_are_one_entry_of_the_disk_cache(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path / "cache", 1 << 20)
    compiled = CompiledObject(b"one\n", "entry", "data", (b"", b"three"))
    assert cache.put("a" * 64, compiled) == ""
    assert cache.get("a" * 64).found == compiled


def test_many_threads_compile_at_once(text: str) -> None:
    target = machine_target()
    modules = module_of(text).split(2)
    wanted = emit_objects(modules, target)
    found: list[list[bytes]] = []
    threads = [threading.Thread(target=lambda: found.append(emit_objects(modules, target, threads=2))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [wanted] * 8


@pytest.mark.parametrize("threads", ["1", "2"])
def test_the_entry_is_compiled_beside_the_calls_unless_there_is_to_be_one_thread(threads: str) -> None:
    script = """
        import sys, threading, time
        import numpy as np, adjit as aj
        from adjit.codegen.fastcall import compile_fastcall as entry
        from support.compiler_threads import wait_for_compilers
        compile_entry, waited = entry.compile_fastcall, []
        def noted(text):
            frame, names = sys._current_frames()[threading.main_thread().ident], []
            while frame:
                names.append(frame.f_code.co_name)
                frame = frame.f_back
            waited.append("get" in names)
            return compile_entry(text)
        entry.compile_fastcall = noted
        function = aj.compile(lambda x: x + 1, backend="native")
        for _ in range(1000):
            assert (function(np.zeros(3)) == 1).all()
            if function._cache.record.hits:
                break
            time.sleep(0.01)
        else:
            raise AssertionError("the entry never ran")
        assert len(waited) == 1
        wait_for_compilers()
        print(waited[0], threading.active_count())
    """
    assert run(script, ADJIT_THREADS=threads) == f"{threads == '1'} 1"


def test_a_process_may_end_while_the_entry_is_compiled() -> None:
    assert run("""
        import numpy as np, adjit as aj
        function = aj.compile(lambda x: np.sin(x) @ x.T, backend="native", threads=2)
        function(np.ones((2, 2)))
        function(np.ones((2, 2)))
        print("over")
    """) == "over"


def run(script: str, **environment: str) -> str:
    """What a process prints that compiles everything anew; what it says besides is an error."""
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, timeout=200,
                          env={**os.environ, "ADJIT_CACHE_SIZE": "0", "PYTHONPATH": str(TESTS), **environment})
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.strip()


@pytest.fixture
def busy() -> Iterator[threading.Event]:
    """A thread that is in LLVM until it is told to come out."""
    inside, leave = threading.Event(), threading.Event()

    def stay() -> None:
        with no_fork():
            inside.set()
            leave.wait(5)

    thread = threading.Thread(target=stay)
    thread.start()
    inside.wait()
    yield leave
    leave.set()
    thread.join()


def test_forks_wait_for_threads_in_llvm(busy: threading.Event) -> None:
    begin = time.monotonic()
    timer = threading.Timer(0.2, busy.set)
    timer.start()
    child = os.fork()
    if not child:
        os._exit(0)
    waited = time.monotonic() - begin
    os.waitpid(child, 0)
    timer.join()
    assert waited >= 0.2


def test_a_fork_waits_for_all_parts_of_a_module() -> None:
    """Threads that help with a compilation begin after the fork has begun to wait for it: they must not wait for the fork in turn."""
    left_inside: list[int] = []

    def fork() -> None:
        fork_safety._guard.before_fork()
        left_inside.append(len(fork_safety._guard.active))
        fork_safety._guard.after_in_parent()

    thread = threading.Thread(target=fork)
    with no_fork():
        thread.start()
        while not fork_safety._guard.forking:
            time.sleep(0.001)
        emit_objects([Module(f"define i64 @f{k}() {{\n  ret i64 0\n}}") for k in range(8)], TARGETS["sse2"], threads=2)
    thread.join()
    assert left_inside == [0]


def test_a_block_that_ends_after_those_around_it_leaves_nobody_inside() -> None:
    """As the one of an `Emission` does that Ctrl-C has left before it was entered for good."""
    wait_for_compilers()
    inner = ExitStack()
    with no_fork():
        inner.enter_context(no_fork())
    inner.close()
    assert threading.get_ident() not in fork_safety._guard.active


@pytest.mark.parametrize("waited_for", [True, False])
def test_a_thread_goes_inside_with_the_one_that_waits_for_it(waited_for: bool) -> None:
    """A fork waits for the one that started it, which waits for the thread; but where nobody does, the fork comes first."""
    done: list[str] = []

    def work(starter: int) -> None:
        with no_fork_for(starter), no_fork():
            done.append("worked")

    def fork() -> None:
        fork_safety._guard.before_fork()
        if not waited_for:
            working.start()
            time.sleep(0.05)
        done.append("forked")
        fork_safety._guard.after_in_parent()

    working = threading.Thread(target=work, args=(threading.get_ident(),))
    forking = threading.Thread(target=fork)
    with no_fork() if waited_for else nullcontext():
        forking.start()
        while not fork_safety._guard.forking:
            time.sleep(0.001)
        if waited_for:
            working.start()
            working.join()
    forking.join()
    working.join()
    assert done == (["worked", "forked"] if waited_for else ["forked", "worked"])
    assert not fork_safety._guard.active


def test_children_forked_while_others_compile_can_compile() -> None:
    script = """
        import os, signal, threading, warnings
        import numpy as np, adjit as aj
        warnings.simplefilter("ignore")
        over = False
        def compile_one(k):
            assert aj.compile(lambda x: np.tanh(x * k) @ x.T + k, backend="native")(np.ones((3, 4), "f4")).shape == (3, 3)
        def compile_on():
            k = 0
            while not over:
                k += 1
                compile_one(k)
        shared = aj.compile(lambda x, n: np.exp(x) * n, backend="native", static="n")
        def share():
            n = 0
            while not over:
                n += 1
                shared(np.ones(3), n)
        threads = [threading.Thread(target=work) for work in (compile_on, compile_on, share)]
        for thread in threads:
            thread.start()
        ends = []
        for attempt in range(10):
            child = os.fork()
            if not child:
                signal.alarm(20)        # ends a child that hangs
                compile_one(-1 - attempt)
                shared(np.ones(3), -1 - attempt)
                os._exit(0)
            ends.append(os.waitpid(child, 0)[1])
            if ends[-1]:
                break
        over = True
        for thread in threads:
            thread.join()
        print(ends)
    """
    assert run(script) == str([0] * 10)
