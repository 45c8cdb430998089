"""Writes `docs/ops.md`, the reference of all ops, from their records: `python docs/make_ops_page.py`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import adjit.ir.ops  # noqa: F401  (fills DEFINITIONS)
from adjit.ir.definition import DEFINITIONS, Kind, OpDefinition
from adjit.ir.errors import DTypeError
from adjit.ir.types import F64, SHORT_NAMES, TensorType, bfloat16, is_float, is_half, is_integer

PAGE = Path(__file__).with_name("ops.md")

HEAD = """\
# Ops

The ops of the IR. This page is made from the op records in `ir/ops/` by `docs/make_ops_page.py`; a test keeps it up to date.

- *Dtypes*: what the type rule takes as data; indices are i64 and conditions bool. What takes f16 takes bf16; other ops of halves are
  emitted in f32, between conversions.
- *Derivative*: whether there is a rule. Every rule is checked against finite differences, also when differentiated again.
- *NumPy*: the function that means the same, where there is one.
"""

KINDS = {
    Kind.ELEMENTWISE: "Operands of one dtype and shape; each element of the result is made of the elements in the same place.",
    Kind.EXTERNAL: "As elementwise ops, by calls of a compiled function of another library, which machine code makes without Python.",
    Kind.REDUCTION: "Elements along `axes` are combined, and these dimensions disappear.",
    Kind.MOVEMENT: "Elements move to other places; none is computed, but for the sums of `add_slice`.",
    Kind.INDEXING: "Elements move from or to places that are data. Indices are i64, at least 0 and below the size of the axis.",
    Kind.CONTRACTION: "Products summed over a dimension.",
    Kind.WINDOW: "Elements of windows that slide over the last axes are combined. Axes are padded and windows lie as for `convolution`.",
    Kind.CREATION: "No operands.",
    Kind.SCAN: "The order of the elements along one axis counts.",
    Kind.LINALG: "Matrices, the last two dimensions; the others are a stack. Computed by LAPACK, which comes with SciPy.",
    Kind.REGION: "Ops that own graphs: transforms, which the pass `differentiate` expands, and kernels.",
    Kind.CHECK: "No result; a program stops where the check fails.",
    Kind.MEMORY: "Only in planned graphs.",
}

CLASSES = {
    "floats": {name for name, dtype in SHORT_NAMES.items() if is_float(dtype) and not is_half(dtype)},
    "integers": {name for name, dtype in SHORT_NAMES.items() if is_integer(dtype)},
    "bool": {"bool"},
}


def page() -> str:
    """The text of the page."""
    return "\n".join([HEAD, *(line for kind in Kind for line in section(kind))])


def section(kind: Kind) -> Iterator[str]:
    yield f"## {kind.value.capitalize()}\n"
    yield f"{KINDS[kind]}\n"
    yield "| op | attributes | meaning | dtypes | derivative | NumPy |"
    yield "|---|---|---|---|---|---|"
    for definition in DEFINITIONS.values():
        if definition.kind is kind:
            yield "| " + " | ".join(cells(definition)) + " |"
    yield ""


def cells(definition: OpDefinition) -> tuple[str, ...]:
    attributes = ", ".join(f"`{name}`" for name in definition.attributes)
    numpy = f"`{definition.numpy.__name__}`" if definition.numpy else ""
    return (f"`{definition.name}`", attributes, escaped(definition.doc), dtypes(definition), "yes" if definition.vjp else "", numpy)


def escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("*", "\\*")


def dtypes(definition: OpDefinition) -> str:
    """The dtypes that the type rule takes for the data of the op, indices and conditions apart."""
    sample = next(iter(definition.samples()), None)
    if sample is None:
        return ""
    types = [TensorType(array.dtype, array.shape) for array in sample.arrays]
    data = F64 if F64 in [type.dtype for type in types] or not types else types[0].dtype
    taken = set()
    for name, dtype in [*SHORT_NAMES.items(), ("bf16", bfloat16())]:
        attrs = sample.attrs | ({"dtype": dtype} if definition.kind is Kind.CREATION else {})
        try:
            definition.result_types([type.with_dtype(dtype) if type.dtype == data else type for type in types], attrs)
        except DTypeError:
            continue
        taken.add(name)
    classes = [name for name, members in CLASSES.items() if members <= taken]
    return ", ".join([*classes, *sorted(taken.difference(*(CLASSES[name] for name in classes)))])


if __name__ == "__main__":
    PAGE.write_text(page())
