"""Steps of collectives: one call of a function of MPI, at the address which the table holds (`ir/communicator.py`)."""

from __future__ import annotations

from collections.abc import Mapping

from adjit.codegen.llvm.builder import Value
from adjit.codegen.llvm.target import Target
from adjit.codegen.native.program_code import MAX_GIL_HELD_NS, StepCode
from adjit.codegen.native.step_builder import StepBuilder
from adjit.ir.analysis.collective_order import line_of
from adjit.ir.communicator import BY_PYTHON, DIGEST, EVENTS, PLACES, PRIME, RECENT, SAMPLE_WORDS, SAMPLES, element_of, key_of
from adjit.ir.graph import Op

_FUNCTIONS = {"all_reduce": "MPI_Allreduce", "all_gather": "MPI_Allgather", "all_to_all": "MPI_Alltoall", "broadcast_rank": "MPI_Bcast"}


def note(text: StepBuilder, table: str, key: int) -> None:
    """Note an event, as `Communicator.note` does."""
    calls = text.load("ptr", table, 8 * PLACES["calls"])
    number = text.add(text.load("i64", calls, 8 * EVENTS), 1)
    keyed = text.let(f"xor i64 {text.load('i64', calls, 8 * DIGEST)}, {key}")
    digest, by_python = text.mul(keyed, PRIME), text.load("i64", calls, 8 * BY_PYTHON)
    check = text.let(f"xor i64 {text.let(f'xor i64 {number}, {digest}')}, {by_python}")
    for word, value in ((EVENTS, number), (DIGEST, digest)):
        text.store("i64", value, text.at(calls, 1, 8 * word))
    zeros = text.call("i64", "@llvm.cttz.i64", ("i64", number), ("i1", "true"))
    recent = text.add(text.let(f"and i64 {number}, {RECENT - 1}"), 64)
    for index in (zeros, recent):
        sample = text.at(calls, 1, text.add(text.mul(index, 8 * SAMPLE_WORDS), 8 * SAMPLES))
        for word, value in enumerate((number, digest, by_python, check)):
            text.store("i64", value, text.at(sample, 1, 8 * word))


def lower_collective(op: Op, shared: Mapping[int, int], target: Target) -> tuple[StepCode, ...]:
    """The step of a collective. It counts as work for which the GIL is released: a rank may wait long for the others. Handles of MPI are
    pointers or ints; both go in one register. The counters tell that the rank waits (`runtime/distributed/agreement.py`)."""
    type = op.operands[0].type
    element, each = element_of(type.dtype, op.name != "all_reduce")
    count = type.size * each // (op.attrs["size"] if op.name == "all_to_all" else 1)
    text = StepBuilder(target)
    with text.step():
        source, table, to = (text.place(number) for number in range(3))

        def field(name: str, kind: str = "ptr") -> str:
            return text.load(kind, table, 8 * PLACES[name])

        note(text, table, key_of(line_of(op)))
        calls, comm, types, counted = field("calls"), ("ptr", field("comm")), ("ptr", field(element)), ("i32", count)
        if op.name == "all_reduce":
            arguments: list[tuple[str, Value]] = [("ptr", source), ("ptr", to), counted, types, ("ptr", field(op.attrs["op"])), comm]
        elif op.name == "broadcast_rank":
            text.copy(to, source, type.nbytes)
            arguments = [("ptr", to), counted, types, ("i32", op.attrs["root"]), comm]
        else:
            arguments = [("ptr", source), counted, types, ("ptr", to), counted, types, comm]
        text.store("i64", text.add(text.load("i64", calls), 1), calls)
        status = text.call("i32", field(_FUNCTIONS[op.name]), *arguments)
        text.store("i64", text.add(text.load("i64", calls, 8), 1), text.at(calls, 1, 8))
        with text.if_(text.compare("ne", status, 0, "i32")):
            text.call("void", field("failed"), ("i32", status))
            text.ret("i64", 1)
    return (text.code(1, MAX_GIL_HELD_NS, checks=True),)
