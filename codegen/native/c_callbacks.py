"""A program as C functions of numbers, in LLVM text: callbacks for integrators and samplers in C, in place of a Python function.

    int32_t evaluate(int64_t n, const double *x, double *value, double *gradient)       0, or an index into `STATUS`
    double value(int n, double *x, void *user_data)                                     NaN if `evaluate` would not return 0
    double value_and_grad(int64_t n, const double *x, double *gradient, void *user_data)
    double value_of_one(double x, void *user_data)

Small working memory lies on the stack of the caller's thread, large one is allocated for each call: any number of calls may be under way
at once, from any threads, and within each other.
"""

from __future__ import annotations

from collections.abc import Sequence

from adjit.codegen.c_library.description import bytes_text
from adjit.codegen.llvm.builder import Builder
from adjit.codegen.native.program_code import ENTRY, GUARD_MISSED, ProgramCode
from adjit.ir.dataclass import dataclass
from adjit.ir.memory_sizes import MAX_CALL_STACK_BYTES

STATUS = (
    "no error", "the function takes another number of variables", "a pointer is NULL", "memory is exhausted", "an index is out of range",
    "a decision on values differs from that of the call for which the function was compiled")
"""Messages for the statuses that `evaluate` returns."""

SYMBOL = "adjit_functions"
FUNCTIONS = ("evaluate", "value", "value_and_grad", "value_of_one")
"""Exported functions, in the order of their addresses in the table `SYMBOL`; null for functions that the program does not have."""

_LINE = 64
_NAN = "0x7FF8000000000000"
_DECLARATIONS = """
declare ptr @aligned_alloc(i64, i64)
declare void @free(ptr)
"""


@dataclass(frozen=True, slots=True)
class Objective:
    """A program read as a function of `count` numbers.

    `params` has, for each parameter of the program, the index of its first number in x, or its constant value. Result number `value` is the
    value; `gradient` maps the other results to the indices of their first numbers.
    """

    count: int
    params: Sequence[int | bytes]
    value: int
    gradient: Sequence[tuple[int, int]]
    arena_bytes: int


def callbacks_text(code: ProgramCode, objective: Objective) -> str:
    """The module: the program, its C functions, and the table of their addresses."""
    constants = [part for part in objective.params if isinstance(part, bytes)]
    declared = [f"@objective.{k} = internal constant [{max(len(part), 1)} x i8] c\"{bytes_text(part or bytes(1))}\", align {_LINE}"
                for k, part in enumerate(constants)]
    text = Builder("\n".join([_DECLARATIONS, *declared]))
    _write_evaluate(text, objective)
    there = ["evaluate", "value"]
    with text.function("value", "i32 %n", "ptr %x", "ptr %user", result="double"):
        _return_value(text, text.let("sext i32 %n to i64"), "%x", "null")
    if objective.gradient:
        there.append("value_and_grad")
        with text.function("value_and_grad", "i64 %n", "ptr %x", "ptr %gradient", "ptr %user", result="double"):
            _return_value(text, "%n", "%x", "%gradient")
    if objective.count == 1:
        there.append("value_of_one")
        with text.function("value_of_one", "double %x", "ptr %user", result="double"):
            variable = text.variable("%x", "double")
            _return_value(text, "1", variable.address, "null")
    table = ", ".join(f"ptr @{name}" if name in there else "ptr null" for name in FUNCTIONS)
    return f"{code.text}\n{text}\n@{SYMBOL} = constant [{len(FUNCTIONS)} x ptr] [{table}]\n"


def _return_value(text: Builder, count: str, x: str, gradient: str) -> None:
    value = text.variable(_NAN, "double")
    status = text.call("i32", "@evaluate", ("i64", count), ("ptr", x), ("ptr", value.address), ("ptr", gradient))
    with text.if_(text.compare("ne", status, 0, "i32")):
        text.ret("double", _NAN)
    text.ret("double", value.value)


def _write_evaluate(text: Builder, objective: Objective) -> None:
    own = -(-objective.arena_bytes // _LINE) * _LINE
    total = own + -(-8 * objective.count // _LINE) * _LINE      # the gradient lies behind the arena if the caller passes no memory for it
    allocates = total > MAX_CALL_STACK_BYTES
    with text.function("evaluate", "i64 %n", "ptr %x", "ptr %value", "ptr %gradient", result="i32"):
        with text.if_(text.compare("ne", "%n", objective.count)):
            text.ret("i32", 1)
        either = text.either(text.same("%x", "null"), text.same("%value", "null"))
        with text.if_(either):
            text.ret("i32", 2)
        if allocates:
            memory = text.call("ptr", "@aligned_alloc", ("i64", _LINE), ("i64", total))
            with text.if_(text.same(memory, "null")):
                text.ret("i32", 3)
        else:
            memory = text.alloca("i8", max(total, _LINE), _LINE)
        unasked = text.same("%gradient", "null")
        gradient = text.select(unasked, "ptr", text.at(memory, 1, own), "%gradient")
        params = text.alloca("ptr", max(len(objective.params), 1))
        results = text.alloca("ptr", 1 + len(objective.gradient))
        constant = 0
        for number, part in enumerate(objective.params):
            if isinstance(part, bytes):
                place, constant = f"@objective.{constant}", constant + 1
            else:
                place = text.at("%x", 1, 8 * part)
            text.store("ptr", place, params, 8 * number)
        text.store("ptr", "%value", results, 8 * objective.value)
        for number, first in objective.gradient:
            text.store("ptr", text.at(gradient, 1, 8 * first), results, 8 * number)
        failed = text.call("i64", f"@{ENTRY}", ("ptr", params), ("ptr", results), ("ptr", memory), ("ptr", "null"))
        if allocates:
            text.call("void", "@free", ("ptr", memory))
        good = text.compare("eq", failed, 0)
        missed = text.compare("ne", text.let(f"and i64 {failed}, {GUARD_MISSED}"), 0)
        text.ret("i32", text.select(good, "i32", 0, text.select(missed, "i32", 5, 4)))
