"""C functions that call a compiled program, in LLVM text: callbacks for integrators, samplers and optimizers, instead of Python.

The module refers to two symbols, which whoever loads it binds: `ENTRY`, the code of the program, and `POINTERS`, a table of addresses of
arrays that callers do not pass. So the module holds no data and little code, and a pointer in the table may be replaced.

Small working memory lies on the stack of the caller's thread, large one is allocated for each call: any number of calls may be under way
at once, from any threads, and within each other.
"""

from __future__ import annotations

from collections.abc import Sequence

from adjit.codegen.llvm.builder import Builder, Value
from adjit.codegen.native.program_code import ENTRY, GUARD_MISSED
from adjit.ir.dataclass import dataclass
from adjit.ir.memory_sizes import MAX_CALL_STACK_BYTES

STATUS = (
    "no error", "the function takes another number of variables", "a pointer is NULL", "memory is exhausted", "an index is out of range",
    "a decision on values differs from that of the call for which the function was compiled", "the results have another number of elements")
"""Messages for the statuses that functions return."""

SYMBOL, POINTERS = "adjit_functions", "adjit_pointers"

SIGNATURES = {
    "evaluate": "int32_t (int64_t, const double *, double *, double *)",
    "value": "double (int, double *, void *)",
    "value_and_grad": "double (int64_t, const double *, double *, void *)",
    "value_of_one": "double (double, void *)",
    "residuals": "int32_t (int64_t, const double *, int64_t, double *)",
    "jacobian": "int32_t (int64_t, const double *, int64_t, double *, double *)",
    "rhs": "int32_t (double, const double *, double *, void *)",
    "logp": "int64_t (uint64_t, double *, double *, double *, void *)",
    "expand": "int64_t (uint64_t, uint64_t, double *, double *, void *)",
}
"""Functions that there may be, in the order of their addresses in the table `SYMBOL`; null for those that a program does not have."""

FORMS = {
    "value": ("evaluate", "value"), "value_and_grad": ("evaluate", "value", "value_and_grad"), "residuals": ("residuals",),
    "jacobian": ("jacobian",), "rhs": ("rhs",), "nutpie": ("evaluate", "value", "value_and_grad", "logp", "expand")}
"""Functions of each form; one of one variable has `value_of_one` as well."""

_LINE = 64
_NAN = "0x7FF8000000000000"
_DECLARATIONS = f"""
declare ptr @aligned_alloc(i64, i64)
declare void @free(ptr)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare i64 @{ENTRY}(ptr, ptr, ptr, ptr)
@{POINTERS} = external global ptr
"""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a parameter or a result of the program lies: from number `start` on in the buffer of this name."""

    buffer: str
    start: int = 0


@dataclass(frozen=True, slots=True)
class Objective:
    """A program read as a function of `count` numbers.

    `params` has the place of each parameter: in "x", "time" or the "pointers"; `results` of each result, in "first" (the value, residuals,
    derivatives) or "second" (a gradient, a Jacobian), of the sizes `sizes`. Where the program is for any number of rows, the array number
    `rows` of the pointers tells how many there are, and a size in `per_row` is that of a row.
    """

    form: str
    count: int
    params: Sequence[Place]
    results: Sequence[Place]
    sizes: tuple[int, int]
    arena_bytes: int
    rows: int = -1
    per_row: tuple[bool, bool] = (False, False)


def callbacks_text(objective: Objective) -> str:
    """The module: the C functions of the form, and the table of their addresses."""
    text = Builder(_DECLARATIONS)
    _write_run(text, objective)
    there = [*FORMS[objective.form], *(["value_of_one"] if objective.count == 1 and "value" in FORMS[objective.form] else [])]
    for name in there:
        _WRITERS[name](text, objective)
    table = ", ".join(f"ptr @{name}" if name in there else "ptr null" for name in SIGNATURES)
    return f"{text}\n@{SYMBOL} = constant [{len(SIGNATURES)} x ptr] [{table}]\n"


def _write_run(text: Builder, objective: Objective) -> None:
    """`run(x, time, first, second)`, which returns a status. Results without a place are written behind the arena."""
    own = -(-objective.arena_bytes // _LINE) * _LINE
    fixed = [-(-8 * size // _LINE) * _LINE for size in objective.sizes]
    allocates = any(objective.per_row) or own + sum(fixed) > MAX_CALL_STACK_BYTES
    with text.function("run", "ptr %x", "ptr %time", "ptr %first", "ptr %second", result="i32"):
        with text.if_(text.same("%x", "null")):
            text.ret("i32", 2)
        first, second = (text.mul(_LINE, text.let(f"udiv i64 {text.add(text.mul(_size(text, objective, number), 8), _LINE - 1)}, {_LINE}"))
                         if objective.per_row[number] else size for number, size in enumerate(fixed))
        total = text.add(text.add(first, second), own) if allocates else own + sum(fixed)
        if allocates:
            memory = text.call("ptr", "@aligned_alloc", ("i64", _LINE), ("i64", total))
            with text.if_(text.same(memory, "null")):
                text.ret("i32", 3)
        else:
            memory = text.alloca("i8", max(own + sum(fixed), _LINE), _LINE)
        buffers = {"x": "%x", "time": "%time"}
        for name, start in (("first", own), ("second", text.add(first, own) if allocates else own + fixed[0])):
            buffers[name] = text.select(text.same(f"%{name}", "null"), "ptr", text.at(memory, 1, start), f"%{name}")
        params = text.alloca("ptr", max(len(objective.params), 1))
        results = text.alloca("ptr", max(len(objective.results), 1))
        for places, table in ((objective.params, params), (objective.results, results)):
            for number, place in enumerate(places):
                address = text.load("ptr", f"@{POINTERS}", 8 * place.start) if place.buffer == "pointers" \
                    else text.at(buffers[place.buffer], 1, 8 * place.start)
                text.store("ptr", address, table, 8 * number)
        failed = text.call("i64", f"@{ENTRY}", ("ptr", params), ("ptr", results), ("ptr", memory), ("ptr", "null"))
        if allocates:
            text.call("void", "@free", ("ptr", memory))
        good = text.compare("eq", failed, 0)
        missed = text.compare("ne", text.let(f"and i64 {failed}, {GUARD_MISSED}"), 0)
        text.ret("i32", text.select(good, "i32", 0, text.select(missed, "i32", 5, 4)))


def _size(text: Builder, objective: Objective, number: int) -> Value:
    """How many numbers the results in "first" or "second" are."""
    size = objective.sizes[number]
    if not objective.per_row[number]:
        return size
    rows = text.load("i64", text.load("ptr", f"@{POINTERS}", 8 * objective.rows))
    return text.mul(rows, size)


def _run(text: Builder, x: str, first: str, second: str = "null", time: str = "null") -> str:
    return text.call("i32", "@run", ("ptr", x), ("ptr", time), ("ptr", first), ("ptr", second))


def _check(text: Builder, found: str, expected: Value, status: int) -> None:
    with text.if_(text.compare("ne", found, expected)):
        text.ret("i32", status)


def _evaluate(text: Builder, objective: Objective) -> None:
    with text.function("evaluate", "i64 %n", "ptr %x", "ptr %value", "ptr %gradient", result="i32"):
        _check(text, "%n", objective.count, 1)
        with text.if_(text.same("%value", "null")):
            text.ret("i32", 2)
        text.ret("i32", _run(text, "%x", "%value", "%gradient"))


def _value(text: Builder, objective: Objective) -> None:
    with text.function("value", "i32 %n", "ptr %x", "ptr %user", result="double"):
        _return_value(text, text.let("sext i32 %n to i64"), "%x", "null")


def _value_and_grad(text: Builder, objective: Objective) -> None:
    with text.function("value_and_grad", "i64 %n", "ptr %x", "ptr %gradient", "ptr %user", result="double"):
        _return_value(text, "%n", "%x", "%gradient")


def _value_of_one(text: Builder, objective: Objective) -> None:
    with text.function("value_of_one", "double %x", "ptr %user", result="double"):
        _return_value(text, "1", text.variable("%x", "double").address, "null")


def _return_value(text: Builder, count: str, x: str, gradient: str) -> None:
    value = text.variable(_NAN, "double")
    status = text.call("i32", "@evaluate", ("i64", count), ("ptr", x), ("ptr", value.address), ("ptr", gradient))
    with text.if_(text.compare("ne", status, 0, "i32")):
        text.ret("double", _NAN)
    text.ret("double", value.value)


def _residuals(text: Builder, objective: Objective) -> None:
    with text.function("residuals", "i64 %n", "ptr %x", "i64 %m", "ptr %out", result="i32"):
        _check(text, "%n", objective.count, 1)
        _check(text, "%m", _size(text, objective, 0), 6)
        with text.if_(text.same("%out", "null")):
            text.ret("i32", 2)
        text.ret("i32", _run(text, "%x", "%out"))


def _jacobian(text: Builder, objective: Objective) -> None:
    with text.function("jacobian", "i64 %n", "ptr %x", "i64 %m", "ptr %residuals", "ptr %matrix", result="i32"):
        _check(text, "%n", objective.count, 1)
        _check(text, "%m", _size(text, objective, 0), 6)
        text.ret("i32", _run(text, "%x", "%residuals", "%matrix"))


def _rhs(text: Builder, objective: Objective) -> None:
    with text.function("rhs", "double %time", "ptr %y", "ptr %dy", "ptr %user", result="i32"):
        with text.if_(text.same("%dy", "null")):
            text.ret("i32", 2)
        text.ret("i32", _run(text, "%y", "%dy", time=text.variable("%time", "double").address))


def _logp(text: Builder, objective: Objective) -> None:
    """0, or 1 for a value that is not finite (the sampler goes elsewhere), or -1 for an error (it stops)."""
    with text.function("logp", "i64 %n", "ptr %x", "ptr %gradient", "ptr %value", "ptr %user", result="i64"):
        status = text.call("i32", "@evaluate", ("i64", "%n"), ("ptr", "%x"), ("ptr", "%value"), ("ptr", "%gradient"))
        with text.if_(text.compare("ne", status, 0, "i32")):
            text.ret("i64", -1)
        value = text.load("double", "%value")
        zero = text.let(f"fsub double {value}, {value}")
        text.ret("i64", text.select(text.let(f"fcmp oeq double {zero}, 0.0"), "i64", 0, 1))


def _expand(text: Builder, objective: Objective) -> None:
    with text.function("expand", "i64 %n", "i64 %m", "ptr %x", "ptr %out", "ptr %user", result="i64"):
        with text.if_(text.either(text.compare("ne", "%n", objective.count), text.compare("ne", "%m", objective.count))):
            text.ret("i64", -1)
        text.do(f"call void @llvm.memcpy.p0.p0.i64(ptr %out, ptr %x, i64 {8 * objective.count}, i1 false)")
        text.ret("i64", 0)


_WRITERS = {"evaluate": _evaluate, "value": _value, "value_and_grad": _value_and_grad, "value_of_one": _value_of_one,
            "residuals": _residuals, "jacobian": _jacobian, "rhs": _rhs, "logp": _logp, "expand": _expand}
