"""What the code knows of ops outside of their records agrees with the records: names that stand in it are names of ops, and traits hold
for the samples of the ops that have them."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.each import parametrize_within
from support.op_cases import assert_identical, type_of
from support.project import ROOT

import adjit.ir.ops  # noqa: F401  (fills DEFINITIONS)
from adjit.codegen.llvm.target import TARGETS
from adjit.codegen.native.kernels.scalar_templates import SUMS_WITH, template
from adjit.ir.analysis.kernel_schedule import schedule_kernel
from adjit.ir.definition import DEFINITIONS, Kind, OpCost, OpDefinition, Rounding, Sample
from adjit.ir.errors import DTypeError
from adjit.ir.interpreter import evaluate
from adjit.ir.ops import traits
from adjit.ir.parser import parse
from adjit.ir.types import SHORT_NAMES, TensorType

COMPILER = ("ir", "passes", "codegen", "runtime", "eager")
"""Packages whose code asks for the names of ops."""

NOT_OPS = {"sys.implementation.name", "os.name", "entry.name", "step.name", "p.name"}
"""What has a name and is no op."""

OTHER_LANGUAGES = ("codegen/vector_math/llvm_printer.py", "codegen/vector_math/functions.py",
                   "codegen/native/kernels/scalar_templates.py", "eager/methods.py")
"""Files whose tables are of scalar functions or of methods, some of which are named as ops are."""

Found = tuple[int, str]


def texts(node: ast.AST) -> list[str] | None:
    """The strings of a literal, be it one string or a collection of nothing else."""
    if isinstance(node, ast.Constant):
        return [node.value] if isinstance(node.value, str) else None
    if isinstance(node, ast.Dict):
        keys = [key.value for key in node.keys if isinstance(key, ast.Constant)]
        return [key for key in keys if isinstance(key, str)] if len(keys) > 1 else None
    if isinstance(node, (ast.Set, ast.Tuple, ast.List)) and node.elts:
        found = [texts(element) for element in node.elts]
        return None if None in found else [text for several in found for text in several or ()]
    return None


def unknown_names(source: str) -> Iterator[Found]:
    """Lines and strings that stand for ops and name none: what an op's name is compared with, what rules of rewriting are for, and what
    stands in a collection of which more than half are names of ops."""
    for node in ast.walk(ast.parse(source)):
        named: list[str] = []
        if isinstance(node, ast.Compare) and isinstance(node.left, ast.Attribute) and node.left.attr == "name":
            named = [] if ast.unparse(node.left) in NOT_OPS else texts(node.comparators[0]) or []
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("rule", "maker"):
            named = [text for argument in (*node.args, *(keyword.value for keyword in node.keywords)) for text in texts(argument) or ()]
        elif isinstance(node, (ast.Set, ast.Tuple, ast.List, ast.Dict)):
            several = texts(node) or []
            named = several if 2 * sum(text in DEFINITIONS for text in several) > len(several) > 2 else []
        yield from ((node.lineno, text) for text in named if text not in DEFINITIONS)      # type: ignore[attr-defined]


def files() -> list[Path]:
    return sorted(path for package in COMPILER for path in (ROOT / package).rglob("*.py")
                  if "ops" not in path.parts and str(path.relative_to(ROOT)) not in OTHER_LANGUAGES)


@pytest.mark.parametrize("package", COMPILER)
def test_names_of_ops_in_the_code_are_names_of_ops(package: str) -> None:
    found = [f"{path.relative_to(ROOT)}:{line}: {text!r}" for path in files() if path.is_relative_to(ROOT / package)
             for line, text in unknown_names(path.read_text())]
    assert not found


@pytest.mark.parametrize("code", [
    "FEW = frozenset({'exp', 'logarithm', 'sin'})", "if op.name == 'logarithm': pass", "if op.name not in ('exp', 'logarithm'): pass",
    "TABLE = {'exp': 1, 'logarithm': 2, 'sin': 3}", "@RULES.rule('exp', some=('logarithm',))\ndef rewrite(): pass",
    "graph.maker(value, 'logarithm')"])
def test_name_of_no_op_is_found(code: str) -> None:
    assert [text for _, text in unknown_names(code)] == ["logarithm"]


# -- traits


def with_trait(name: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    found = [definition for definition in DEFINITIONS.values() if getattr(definition, name)]
    assert found
    return parametrize_within("definition", found, ids=lambda definition: definition.name)


def results(definition: OpDefinition, arrays: tuple[np.ndarray, ...], sample: Sample) -> np.ndarray:
    with np.errstate(all="ignore"):
        (result,) = evaluate(definition, arrays, sample.attrs)
    return result


def fields(**changed: object) -> dict[str, Any]:
    return {"doc": "A function.", "infer": lambda x: x, "evaluate": np.sin, "vjp": None, "scalar": "sin({0})", "samples": lambda: (),
            "cost": OpCost.TRANSCENDENTAL, "rounding": Rounding.APPROXIMATE, **changed}


@pytest.mark.parametrize("forgotten", ["cost", "rounding"])
def test_elementwise_record_states_what_passes_ask_for(forgotten: str) -> None:
    OpDefinition("new", Kind.ELEMENTWISE, **fields())
    with pytest.raises(ValueError, match=f"elementwise ops state their `{forgotten}`"):
        OpDefinition("new", Kind.ELEMENTWISE, **fields(**{forgotten: None}))


@pytest.mark.parametrize(("kind", "forgotten"), [(Kind.REDUCTION, "combine"), (Kind.CONTRACTION, "terms"), (Kind.REGION, "region_use")])
def test_record_of_another_kind_states_what_passes_ask_for(kind: Kind, forgotten: str) -> None:
    for definition in DEFINITIONS.values():
        assert (getattr(definition, forgotten) is not None) == (definition.kind is kind)
    scalar = {"scalar": "({0} + {1})", "identity": np.zeros} if kind is Kind.REDUCTION else {"scalar": None}
    with pytest.raises(ValueError, match=f"state their `{forgotten}`"):
        OpDefinition("new", kind, **fields(**scalar))


def instructions(definition: OpDefinition) -> int:
    """Lines of LLVM for vectors of floats, or of the widest numbers that the op takes."""
    for name in ("f32", "u64", "bool", "c64"):
        types = ["bool", name, name] if definition.name == "select" else [name] * (definition.arity or 1)
        attrs = {"dtype": SHORT_NAMES["f64"]} if definition.name == "convert" else {}
        try:
            definition.result_types([TensorType(SHORT_NAMES[type], (4,)) for type in types], attrs)
        except DTypeError:
            continue
        return template(definition.name, tuple(types), "f64" if attrs else "", 8, TARGETS["avx2"]).lines
    raise AssertionError(f"{definition.name} takes none of these dtypes")


@with_trait("rounding")
def test_cost_agrees_with_the_machine_code(definition: OpDefinition) -> None:
    count = instructions(definition)
    assert definition.cost is not None
    if definition.cost is OpCost.TRANSCENDENTAL:
        assert count >= 8
    else:
        assert count <= {OpCost.CHEAP: 4}.get(definition.cost, 20)


@parametrize_within("name", sorted(traits.TRANSCENDENTAL))
def test_transcendental_function_is_not_computed_in_two_loops(name: str) -> None:
    """In `f(x) / sum(f(x), axis=1)` a kernel keeps the values of a row: it computed eight of the functions twice."""
    definition = DEFINITIONS[name]
    dtype = "u64" if name == "philox" else "f64"
    operands = ", ".join(["%x", "%y"][:definition.arity])
    region = parse(f"""
graph @rows(%x: {dtype}[64,32], %y: {dtype}[64,32]) {{
  %f: {dtype}[64,32] = {name} {operands}
  %s: {dtype}[64] = reduce_sum %f {{axes=(1,)}}
  %b: {dtype}[64,32] = broadcast %s {{axes=(0,), shape=(64, 32)}}
  %r: {dtype}[64,32] = subtract %f, %b
  return %r
}}""")
    assert {value.name for value in schedule_kernel(region, 64, 32).cached} == {"f"}


@with_trait("commutative")
def test_operands_of_commutative_op_may_be_swapped(definition: OpDefinition) -> None:
    for sample in definition.samples():
        assert_identical(results(definition, sample.arrays, sample), results(definition, sample.arrays[::-1], sample))


@with_trait("alias")
def test_alias_has_the_elements_of_its_operand_in_their_order(definition: OpDefinition) -> None:
    for sample in definition.samples():
        assert results(definition, sample.arrays, sample).tobytes() == sample.arrays[0].tobytes()


@with_trait("view")
def test_view_shares_the_memory_of_its_operand(definition: OpDefinition) -> None:
    for sample in definition.samples():
        result = results(definition, sample.arrays, sample)
        rows = sample.arrays[0].flags.c_contiguous and result.ndim      # no view joins rows that lie apart, or is a single number
        assert not result.size or not rows or np.shares_memory(result, sample.arrays[0])


def test_meaning_of_other_elementwise_ops_shares_no_memory() -> None:
    """What makes ndarrays of its own, `numpy_source` may write over."""
    for definition in DEFINITIONS.values():
        if definition.kind in (Kind.ELEMENTWISE, Kind.SCAN) and not definition.view and definition.name != "convert":
            for sample in definition.samples():
                result = results(definition, sample.arrays, sample)
                assert not any(np.shares_memory(result, array) for array in sample.arrays), definition.name


@with_trait("updates")
def test_update_has_the_type_of_what_it_updates(definition: OpDefinition) -> None:
    for sample in definition.samples():
        assert definition.result_types([type_of(array) for array in sample.arrays], sample.attrs) == (type_of(sample.arrays[0]),)


EITHER_ZERO = ("fmax", "fmin")
"""Of two equal zeros NumPy takes one for a single element and may take the other for many."""


@with_trait("same_alone")
def test_element_alone_has_the_same_bits(definition: OpDefinition) -> None:
    assert definition.rounding is not Rounding.APPROXIMATE
    for sample in definition.samples():
        result = results(definition, sample.arrays, sample)
        alone = [results(definition, tuple(array.reshape(-1)[i:i + 1] for array in sample.arrays), sample) for i in range(result.size)]
        of_all = np.concatenate([result.reshape(-1)[:0], *alone])
        if definition.name in EITHER_ZERO and result.dtype.kind == "f":
            result, of_all = result + 0, of_all + 0
        assert_identical(result.reshape(-1), of_all)


@with_trait("nonfinite")
def test_nonfinite_operand_makes_the_result_nonfinite(definition: OpDefinition) -> None:
    for sample in definition.samples():
        some = results(definition, sample.arrays, sample).size and all(array.size for array in sample.arrays)
        if some and all(array.dtype.kind == "f" and np.isfinite(array).all() for array in sample.arrays):
            for index in range(definition.nonfinite):
                for special in (np.inf, -np.inf, np.nan):
                    arrays = [array.copy() for array in sample.arrays]
                    if definition.strong:
                        arrays = [np.where(array == 0, array.dtype.type(1), array) for array in arrays]
                    arrays[index][...] = special
                    assert not np.isfinite(results(definition, tuple(arrays), sample)).all()


@with_trait("strong")
def test_strong_op_is_the_plain_one_where_that_is_finite(definition: OpDefinition) -> None:
    for sample in definition.samples():
        with np.errstate(all="ignore"):
            plain = definition.where_finite(*sample.arrays)      # type: ignore[misc]
        found, finite = results(definition, sample.arrays, sample), np.isfinite(plain)
        assert np.array_equal(found[finite], plain[finite])
        for index in range(definition.strong):
            assert not found[sample.arrays[index] == 0].any()


@with_trait("combine")
def test_reduction_is_that_of_its_ufunc(definition: OpDefinition) -> None:
    for sample in definition.samples():
        (x,) = sample.arrays
        initial = {} if x.size else {"initial": definition.identity(x.dtype)}      # type: ignore[misc]
        with np.errstate(all="ignore"):
            expected = definition.combine.reduce(x, axis=sample.attrs["axes"], **initial)      # type: ignore[union-attr]
        assert_identical(results(definition, sample.arrays, sample), expected.astype(x.dtype))


def test_tables_of_backends_are_of_the_ops_they_need() -> None:
    assert set(traits.ELEMENTWISE) >= SUMS_WITH.keys()
    assert traits.ALIASES <= traits.VIEWS
    assert set(traits.ELEMENTWISE) >= traits.CHEAP | traits.CACHED_OPS
    assert traits.TRANSCENDENTAL <= traits.CACHED_OPS
    assert traits.FREE_IN_TILES < traits.FREE_IN_KERNELS
