"""Step of the op `external`: calls of a C function of `scipy.special.cython_special`, one for each element."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from adjit.codegen.llvm.external import COMPLEX, external_symbol, kinds_of_function
from adjit.codegen.llvm.target import Target
from adjit.codegen.native.program_code import StepCode
from adjit.codegen.native.step_builder import StepBuilder, element_type, split_iterations
from adjit.ir.errors import UnsupportedError
from adjit.ir.graph import Op
from adjit.ir.ops.external import MODULE
from adjit.ir.ops.external_functions import FUNCTIONS

NS_PER_CALL = 60.0
"""Rough time of a call: SciPy's functions take 10 ns to some microseconds."""


def lower_external(op: Op, shared: Mapping[int, int], target: Target) -> tuple[StepCode, ...]:
    """The step of `external`. Functions with several results write them through pointers; one of them is kept."""
    type, count = op.result.type, len(op.operands)
    if not type.size:
        return ()
    known = FUNCTIONS[op.attrs["function"]]
    name, kinds = _capsule(op.attrs["function"])
    outputs = kinds.count("p")
    text, element, size = StepBuilder(target), element_type(type.dtype), type.dtype.itemsize
    task_split = split_iterations((type.size,), work := type.size * NS_PER_CALL)
    result = "void" if outputs else COMPLEX if known.of_complex else "double"
    types = ["i64"] * known.whole + ["double"] * (count - known.whole) + ["ptr"] * outputs + ["i32"] * kinds.count("i")
    kinds_of_types = [*types[:count - 2 * known.of_complex], *[COMPLEX] * known.of_complex, *types[count:]]
    with text.step():
        operands, to = [text.place(number) for number in range(count)], text.place(count)
        cells = [text.alloca(COMPLEX if known.of_complex else "double") for _ in range(outputs)]
        for _, task in text.parts([task_split.tasks]):
            with text.iterations(task, (type.size,), task_split) as (index,):
                loaded = [text.load(element, text.at(operand, size, (index, 1)), align=size) for operand in operands]
                if element == "float":
                    loaded = [text.let(f"fpext float {value} to double") for value in loaded]
                whole = [text.call("i64", "@llvm.fptosi.sat.i64.f64", ("double", value)) for value in loaded[:known.whole]]
                arguments = [*whole, *loaded[known.whole:], *cells, *["0"] * kinds.count("i")]
                value = text.call(result, external_symbol(MODULE, name, result, kinds_of_types), *zip(types, arguments, strict=True))
                output = op.attrs["output"]
                if outputs:
                    cell = cells[output // 2 if known.of_complex else output]
                    value = text.load(COMPLEX if known.of_complex else "double", cell)
                if known.of_complex:
                    value = text.let(f"extractvalue {COMPLEX} {value}, {output % 2}")
                if element == "float":
                    value = text.let(f"fptrunc double {value} to float")
                text.store(element, value, text.at(to, size, (index, 1)), align=size)
    return (text.code(task_split.tasks, work),)


@cache
def _capsule(function: str) -> tuple[str, str]:
    """Name and kinds of the function for doubles. Cython exports a function that has loops for several types once for each, under names
    that are numbered."""
    known = FUNCTIONS[function]
    outputs = len(known.derivatives) // (2 if known.of_complex else 1)
    numbers = "l" * known.whole + "d" * (known.arity - known.whole - 2 * known.of_complex) + "z" * known.of_complex
    result = "z" if known.of_complex else "d"
    wanted = {f"v{numbers}{'p' * outputs}"} if outputs > 1 else {f"{result}{numbers}{end}" for end in ("", "i")}
    for name in (known.name, *(f"__pyx_fuse_{number}{known.name}" for number in ("0", "1", "0_0", "0_1", "1_0"))):
        kinds = kinds_of_function(MODULE, name)
        if kinds in wanted:
            return name, kinds
    raise UnsupportedError(f"this version of SciPy does not export scipy.special.{known.name} as a function of C",
                           hint="pip install -U scipy, or compile with backend='numba'")
