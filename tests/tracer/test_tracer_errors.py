"""What cannot be traced is refused with the user's line and with what to do instead."""

from __future__ import annotations

import datetime
import pickle
import re
import statistics
from pathlib import Path

import numpy as np
import pytest
import scipy.linalg
import scipy.special
import scipy.stats
from support.tracing import run_traced

import adjit as aj
from adjit import numpy as anp
from adjit.ir.errors import ArgumentError, DTypeError, IndexingError, ShapeError, TraceError, UnsupportedError
from adjit.tracer.trace import trace_function

HERE = Path(__file__).name
X = np.arange(6.0).reshape(2, 3)


class Subclass(np.ndarray):
    """An array whose operators might mean anything."""


def fails_here(fun, *args, error, message, hint, **kwargs):
    """`fun` is refused with this message, this hint, and the file and the text of the line that is to blame."""
    with pytest.raises(error, match=message) as caught:
        trace_function(fun, args, kwargs)
    assert hint in (caught.value.hint or "")
    assert caught.value.location.file.endswith(HERE)
    lines = Path(__file__).read_text().splitlines()
    assert caught.value.location.source() == lines[caught.value.location.line - 1].strip()
    return caught.value


@pytest.mark.parametrize(
    ("fun", "message", "hint"),
    [
        (lambda x: 1 if x[0, 0] > 0 else 2, "the truth value of a traced array", "np.where(condition, a, b)"),
        (lambda x: bool(x), "the truth value", "static"),
        (lambda x: x.sum() and x, "the truth value", "np.where"),
        (lambda x: int(x[0, 0]), r"int\(\) of a traced array", ".astype(int)"),
        (lambda x: float(x[0, 0]), r"float\(\) of a traced array", ".astype(float)"),
        (lambda x: x[0, 0].item(), r".item\(\) of a traced array", "return it"),
        (lambda x: x.tolist(), r".tolist\(\) of a traced array", "return it"),
        (lambda x: range(x.astype(int)[0, 0]), "the use as an integer", "static argument"),
        (lambda x: scipy.linalg.schur(x[:, :2]), "calling a function of SciPy", "`eig`, `qr`, `solve_sylvester` and `sqrtm` have rules"),
        (lambda x: scipy.stats.rv_histogram((x, x)), "calling a function of SciPy", "adjit.scipy has no rule for it"),
        (lambda x: np.random.default_rng(0).normal(x), "making an ordinary ndarray", "use functions of NumPy"),
        (lambda x: scipy.special.erf([x[0, 0], x[0, 1]]), "making an ordinary ndarray", "pass np.array(list)"),
        (lambda x: x[0, 0] in (1.0, 2.0), "the truth value", "np.where"),
        (lambda x: 0 < x < 1, "the truth value", "np.where"),
    ],
)
def test_values_are_not_known(fun, message, hint):
    error = fails_here(fun, X, error=TraceError, message=message, hint=hint)
    assert "values are not known while tracing" in error.message
    assert "\n" not in error.message


def test_an_array_that_a_library_made_does_not_take_traced_values():
    def made_by_a_library(x):
        plain = scipy.linalg.hilbert(3)[0]
        plain[0] = x[0, 0]
        return plain

    fails_here(made_by_a_library, X, error=TraceError, message="cannot be written into an ordinary ndarray", hint="np.copy(array)")


def test_other_value_errors_stay_what_they_are():
    def fun(x):
        raise ValueError("mine") from KeyError("cause")

    with pytest.raises(ValueError, match="mine") as caught:
        run_traced(fun, X)
    assert type(caught.value) is ValueError


def test_formatting_needs_a_value():
    fails_here(lambda x: f"{x:.3f}", 2.0, error=TraceError, message="formatting", hint="return it")
    assert run_traced(lambda x: x * len(f"{x}") * 0, 2.0) == 0.0


def test_both_operands_of_a_matmul_that_does_not_fit_are_named():
    weights = np.ones((2, 3))

    def product(x):
        inner = x + 1  # where the first is from
        return np.sum(inner @ weights)

    def derivative(x):
        scale = x * 2  # where the second is from
        return aj.grad(lambda y: np.sum(y @ scale))(x)

    error = fails_here(product, X, error=ShapeError, message=r"matmul: the shapes \(2, 3\) and \(2, 3\)", hint="")
    assert "where the first is from" in str(error)
    assert "operand 2: f64[2,3], an ordinary array from outside of the arguments" in str(error)
    error = fails_here(derivative, X, error=ShapeError, message="do not fit", hint="")
    assert "operand 1: f64[2,3], argument 'x'" in str(error)
    assert "where the second is from" in str(error)


def test_negative_powers_of_integers():
    for fun in (lambda x: x**-1, lambda x: np.power(x, -2), lambda x: x ** np.int64(-1)):
        fails_here(fun, np.array([2, 3]), error=ArgumentError, message="a negative integer power", hint="x.astype(float) ** -")
    np.testing.assert_allclose(run_traced(lambda x: x**-1.0, np.array([2, 4])), [0.5, 0.25])


def test_read_only_arguments_are_not_written_to():
    def write(params):
        params["w"][0] = 1
        return params

    locked = X.copy()
    locked.flags.writeable = False
    error = fails_here(write, {"w": locked}, error=ArgumentError, message="assignment destination is read-only: the argument 'params.w'",
                       hint="x = x.copy()")
    assert 'params["w"][0] = 1' in str(error)
    for fun in (
        lambda x: x.__iadd__(1),
        lambda x: x[0].__setitem__(0, 1),
        lambda x: x.T.fill(0),
        lambda x: np.add(x, 1, out=x),
        lambda x: x.sort(),
    ):
        fails_here(fun, locked, error=ArgumentError, message="assignment destination is read-only", hint="copy")


def test_arguments_of_the_functions_of_loops_are_not_written_to():
    def body(i, carry):
        carry[0] = i
        return carry

    fails_here(lambda x: aj.fori_loop(0, 3, body, x), X, error=TraceError, message="is written to inside of the trace of a loop",
               hint="copy")


@pytest.mark.parametrize(
    ("fun", "name", "near"),
    [
        (lambda x: np.isnat(x), "numpy.isnat", "dates, not numbers"),
        (lambda x: np.shares_memory(x, x), "numpy.shares_memory", "memory, which a traced array does not have"),
        (lambda x: np.divmod.outer(x, x), "numpy.divmod.outer", "write it with the functions of aj.numpy"),
        (lambda x: scipy.special.obl_cv(1.0, 2.0, x), "scipy.special.obl_cv", "write it with the functions of adjit.numpy"),
        (lambda x: scipy.special.mathieu_a(1.0, x), "scipy.special.mathieu_a", "outside of the compiled function"),
    ],
)
def test_a_function_without_a_rule_is_named_with_what_there_is_instead(fun, name, near):
    error = fails_here(fun, X, error=UnsupportedError, message=rf"^{re.escape(name)} has no rule for traced arrays", hint=near)
    assert HERE in str(error)


@pytest.mark.parametrize(
    ("fun", "text"),
    [
        (lambda x: float(x[0, 1]), r"f64\[\], element of x at"),
        (lambda x: float(x[0]), r"f64\[3\], part of x at"),
        (lambda x: float(x[1:]), r"f64\[1,3\], part of x at"),
        (lambda x: float((2 * x)[0, 0]), r"f64\[\], element of an array at"),
        (lambda x: float(x.reshape(-1)), r"f64\[6\], made by reshape at"),
    ],
)
def test_an_element_is_described_as_the_user_wrote_it(fun, text):
    fails_here(fun, X, error=TraceError, message=f".*{text}", hint="")


def test_functions_whose_shape_depends_on_values():
    for fun in (
        lambda x: np.nonzero(x),
        lambda x: np.unique(x),
        lambda x: np.flatnonzero(x),
        lambda x: x.nonzero(),
        lambda x: np.argwhere(x > 0),
    ):
        fails_here(fun, X, error=UnsupportedError, message="depends on values", hint="np.where(mask, x, other)")
    fails_here(lambda x: np.repeat(x, x[0].astype(int), axis=1), X, error=UnsupportedError, message="traced repeats", hint="ordinary array")


def test_an_escaped_array_says_where_it_was_made():
    kept = []

    def fun(x):
        kept.append(np.tanh(x))  # the line that made it
        return x

    trace_function(fun, (X,), {})
    for use in (
        lambda: kept[0] + 1,
        lambda: np.sin(kept[0]),
        lambda: kept[0].value,
        lambda: trace_function(lambda y: y + kept[0], (X,), {}),
        lambda: trace_function(lambda y: y, (kept[0],), {}),
        lambda: kept[0].__setitem__(0, 1),
        lambda: np.array(kept[0]),
        lambda: float(kept[0]),
    ):
        with pytest.raises(TraceError, match="used after the end of its trace") as caught:
            use()
        assert "the line that made it" in str(caught.value)
        assert "return it from the compiled function" in str(caught.value)


def test_an_escaped_argument_is_named():
    kept = []
    trace_function(lambda x: kept.append(x) or x, (X,), {})
    with pytest.raises(TraceError, match=r"f64\[2,3\], argument 'x'"):
        anp.sin(kept[0])


@pytest.mark.parametrize(
    ("leaf", "error", "message"),
    [
        (np.ones(2, np.clongdouble), DTypeError, "the argument params\\['w'\\]: dtype complex256 is not supported"),
        (np.ones(2, np.longdouble), DTypeError, "params\\['w'\\]: dtype"),
        (np.array(["a"], np.dtypes.StringDType()), DTypeError, "params\\['w'\\]: dtype StringDType\\(\\) is not supported"),
        (np.array([None, 1]), DTypeError, "params\\['w'\\]: an object array is not supported"),
        (np.zeros(2, [("a", int)]), DTypeError, "params\\['w'\\]: a structured array is not supported"),
        (np.array(["a"]), DTypeError, "params\\['w'\\]: dtype <U1 is not supported"),
        (np.array([1], "datetime64[s]"), DTypeError, "params\\['w'\\]: dtype datetime64"),
        (np.ma.array([1.0, 2.0], mask=[True, False]), UnsupportedError, "params\\['w'\\] is a masked array"),
        (np.ones(2).view(Subclass), UnsupportedError, "params\\['w'\\] is a Subclass, whose operations are not NumPy's"),
        ({1, 2}, UnsupportedError, "params\\['w'\\] is a builtins.set, neither an array nor a tree of arrays"),
        (object(), UnsupportedError, "params\\['w'\\] is a builtins.object"),
    ],
)
def test_arguments_that_are_refused(leaf, error, message):
    with pytest.raises(error, match=message) as caught:
        trace_function(lambda params: params["w"], ({"w": leaf},), {})
    assert HERE in str(caught.value)
    if isinstance(leaf, np.ndarray):  # the same array reached by closure
        with pytest.raises(error):
            trace_function(lambda x: x + leaf, (np.ones(2),), {})


def test_results_that_are_refused():
    with pytest.raises(UnsupportedError, match=r"the function returns a builtins.object at result\['a'\]\[1\]"):
        trace_function(lambda x: {"a": [x, object()]}, (X,), {})


def test_what_is_put_into_an_argument_is_not_lost_silently():
    def lost(state, x):
        state["w"][0] = state["w"][0] + x
        return x

    with pytest.raises(TraceError, match=r"a container that was passed to it, as state\['w'\]\[0\]") as caught:
        trace_function(aj.vmap(lost), ({"w": [X, X]}, X), {})
    assert "return the new container" in str(caught.value)
    (change,) = trace_function(lost, ({"w": [X, X]}, X), {}).containers     # each call makes it: tests/runtime/test_written_containers.py
    assert change.name == "state['w']"

    def returned(state, x):
        state = dict(state)
        state["w"] = state["w"] + x
        state["same"] = x
        return state

    np.testing.assert_array_equal(run_traced(returned, {"w": X}, X)["w"], 2 * X)


def test_a_plain_array_that_changes_during_the_trace():
    buffer = np.zeros(3)

    def fun(x):
        y = x + buffer
        buffer[0] = 1
        return y + buffer

    np.testing.assert_array_equal(run_traced(fun, X), X + np.array([1, 0, 0]))
    np.testing.assert_array_equal(buffer, 0)
    np.testing.assert_array_equal(aj.compile(fun)(X), X + np.array([1, 0, 0]))
    np.testing.assert_array_equal(buffer, [1, 0, 0])

    def hidden(x):
        y = x + buffer
        memoryview(buffer)[1] = 5.0
        return y

    with pytest.raises(TraceError, match="written to after it was used"):
        run_traced(hidden, X)


def test_attributes_are_those_of_arrays_or_refused():
    """No name of ours stands in the way of one of ndarray's: `x.strides` counted elements, and `x.view` was None."""
    def fun(x):
        for name in (name for name in dir(X) if not name.startswith("_")):
            try:
                found, wanted = getattr(x, name), getattr(X, name)
            except UnsupportedError:
                continue
            if callable(wanted):
                assert callable(found), name
            elif name == "flat":
                assert len(found) == len(wanted)
            elif isinstance(wanted, np.ndarray):
                assert found.shape == wanted.shape, name
            else:
                assert found == wanted, name
        return x

    trace_function(fun, (X,), {})
    fails_here(lambda x: x.view(np.int32), X, error=UnsupportedError, message="numpy.ndarray.view", hint=".astype")
    fails_here(lambda x: x * x.strides[0], X, error=UnsupportedError, message="numpy.ndarray.strides", hint="bytes in memory")


@pytest.mark.parametrize("fun", [lambda x: x[7], lambda x: x[0, 0, 0], lambda x: x[..., ...], lambda x: x[1.5], lambda x: x["a"],
                                 lambda x: x[np.array([0, 9])], lambda x: np.take_along_axis(x, x, 0)])
def test_indices_that_cannot_be(fun):
    fails_here(fun, X, error=IndexingError, message="index|ellipsis|indices|indexed", hint="")


@pytest.mark.parametrize("fun", [lambda x: x.sum(axis=3), lambda x: np.concatenate([x, x], axis=-4), lambda x: np.swapaxes(x, 0, 7)])
def test_axes_that_are_not_there(fun):
    error = fails_here(fun, X, error=IndexingError, message=r"axis (3|-4|7) is out of bounds for array of dimension 2", hint="")
    assert isinstance(error, ValueError)


@pytest.mark.parametrize("view", [np.diagonal, np.diag, lambda x: np.broadcast_to(x, (2, *x.shape))])
def test_read_only_views_are_not_written_to(view):
    error = fails_here(lambda x: view(np.outer(x, x)).fill(0), X[0], error=ArgumentError, message="read-only", hint="np.arange(n)")
    assert isinstance(error, ValueError)


@pytest.mark.parametrize("backend", ["native", "numba", "interpret"])
def test_indices_that_turn_out_of_range_are_errors_of_ours_with_the_users_line(backend):
    compiled = aj.compile(lambda x, i: np.take(x, i, axis=1) * 2.0, backend=backend)
    compiled(X, np.array([2]))
    with pytest.raises(IndexingError, match="take: index 3 is out of bounds for axis 1 with size 3") as caught:
        compiled(X, np.array([3]))
    assert caught.value.location.source() == "compiled = aj.compile(lambda x, i: np.take(x, i, axis=1) * 2.0, backend=backend)"


def test_user_errors_keep_their_type():
    with pytest.raises(KeyError):
        trace_function(lambda p: p["missing"], ({"w": X},), {})


def test_every_op_knows_the_line_of_the_user():
    def fun(x):
        a = np.sin(x)
        b = a.mean(axis=0)
        return b[::-1] * 2

    graph = trace_function(fun, (X,), {}).graph
    lines = Path(__file__).read_text().splitlines()
    texts = {lines[op.loc.line - 1].strip() for op in graph.ops}
    assert texts == {"a = np.sin(x)", "b = a.mean(axis=0)", "return b[::-1] * 2"}
    assert {op.loc.function for op in graph.ops} == {"fun"}


@pytest.mark.parametrize(
    ("body", "message", "hint"),
    [
        (lambda x: aj.scan(lambda c, v: (c + v if v > 1 else c, c), 0.0, x), "the truth value of a traced array, which is another one",
         "np.where.*aj.cond.*write the loop in Python"),
        (lambda x: aj.fori_loop(0, 3, lambda i, s: s + x[i] if x[i] > 1 else s, 0.0), "the truth value",
         "aj.cond.*write the loop in Python"),
        (lambda x: aj.cond(x[0] > 1, lambda x: x[0] if x[1] > 0 else x[2], lambda x: x[1], x), "the truth value", "np.where"),
        (lambda x: aj.fori_loop(0, 3, lambda i, s: s + float(x[i]), 0.0), r"float\(\) of a traced array, which is another one",
         "NumPy's functions"),
        (lambda x: aj.fori_loop(0, 3, lambda i, s: s + len(range(int(x[i]))), 0), r"int\(\) of a traced array, which is another one",
         "write the loop in Python"),
    ],
)
def test_decisions_in_functions_that_the_program_runs_many_times(body, message, hint):
    with pytest.raises(TraceError, match=message) as caught:
        aj.compile(body)(np.arange(3.0))
    assert re.search(hint, str(caught.value))
    assert "test_tracer_errors.py" in str(caught.value)


def test_an_object_that_takes_no_traced_array_says_what_to_do() -> None:
    day = datetime.timedelta(days=1)
    for use in (lambda x: x * day, lambda x: day * x):
        with pytest.raises(TypeError) as caught:
            aj.compile(use)(np.ones(3))
        assert "np.asarray(a)" in caught.value.__notes__[0]


def test_an_object_that_takes_no_array_says_what_it_says_without_compile() -> None:
    class Foreign:
        def __mul__(self, other):
            raise TypeError(f"argument of type {type(other)} is not valid")

    for use in (lambda x: Foreign() * x, aj.compile(lambda x: Foreign() * x)):
        with pytest.raises(TypeError, match=r"^argument of type <class 'numpy\.ndarray'> is not valid$") as caught:
            use(np.ones(3))
        assert not hasattr(caught.value, "__notes__")
    with pytest.raises(TypeError) as caught:
        aj.compile(lambda x: x + None)(np.ones(3))
    assert not hasattr(caught.value, "__notes__")


def test_the_class_of_a_traced_array_converts_nothing():
    with pytest.raises(TraceError, match="called to convert a number") as caught:
        aj.compile(lambda x: statistics.mean(list(x[0])))(X)
    assert "np.mean" in caught.value.hint


def test_columns_of_frames_are_no_indices():
    fails_here(lambda x: x["y"], X, error=IndexingError, message="only integers", hint="a dict of arrays")


@pytest.mark.parametrize(("call", "name"), [
    (lambda x: np.kaiser(5, x[0]), "np.kaiser"), (lambda x: np.asarray_chkfinite(x), "np.asarray_chkfinite"),
    (lambda x: np.testing.assert_allclose(x, x), "np.testing.assert_allclose")])
def test_functions_of_numpy_without_a_rule_are_named(call, name):
    with pytest.raises(TraceError, match=rf"{re.escape(name)} has no rule for traced arrays \(docs/numpy\.md\)"):
        aj.compile(call)(np.ones(3))


def test_keys_of_dicts_are_the_numbers_of_the_call() -> None:
    table = aj.compile(lambda x: {x[0]: x[1], "of": [{int(x[1]): 2.0 * x[0]}]}, backend="interpret")
    for x in (np.array([1.5, 2.0]), np.array([3.0, 4.0])):
        assert table(x) == {x[0]: x[1], "of": [{int(x[1]): 2.0 * x[0]}]}


def test_permutations_by_numpys_generators_name_ours() -> None:
    rng = np.random.default_rng(0)
    with pytest.raises(UnsupportedError, match=r"adjit\.random\.permutation\(key, x\)"):
        aj.compile(lambda x: rng.permutation(x))(np.ones(3))


class OfMethods:
    def __init__(self, held):
        self.held = held

    def __bool__(self):
        return self.held > 0

    def __float__(self):
        return self.held


def squares(x):
    return np.sum(x * x)


async def later(x):
    return x


def test_what_is_typed_wrong_says_what_to_type():
    x, generator = np.arange(3.0), np.random.default_rng(0)
    for call, kind, words in (
        (lambda: aj.grad(squares, x), TypeError, r"grad\(f\)\(x\)"),
        (lambda: aj.vmap(squares, x), TypeError, r"vmap\(f\)\(x\)"),
        (lambda: aj.vjp(squares), TypeError, r"pullback = vjp\(f, x\)"),
        (lambda: aj.hvp(squares, x, x), TypeError, r"hvp\(f, \(x,\), \(v,\)\)"),
        (lambda: aj.grad(squares)(x=x), aj.errors.NonDifferentiableError, "argnames='x'"),
        (lambda: aj.scan(0.0, squares, x), TypeError, "scan takes a function as its first argument"),
        (lambda: aj.cond(True, x, x), TypeError, "cond takes functions as branches, got a ndarray"),
        (lambda: aj.compile(property(squares)), TypeError, "put @property above @compile"),
        (lambda: aj.compile(later), TypeError, "later is async"),
        (lambda: aj.compile(lambda x: generator.normal(x, 1))(x), TraceError, r"draw by a key, aj\.random\.normal"),
        (lambda: aj.compile(lambda x: pickle.dumps(x))(x), TraceError, "pickle what the compiled function gives"),
        (lambda: aj.compile(lambda n: np.zeros(n))(2.0), aj.errors.DTypeError, "single integer\n"),
        (lambda: aj.compile(lambda k: lambda x: x * k)(3.0), UnsupportedError, "returns a function that holds a traced array"),
    ):
        with pytest.raises(kind, match=words):
            call()
    for function in (lambda x: 1.0 if OfMethods(x) else 2.0, lambda x: float(OfMethods(x))):
        with pytest.raises(TypeError) as caught:
            aj.compile(function)(3.0)
        assert "write bool(...), float(...)" in caught.value.__notes__[0]


def test_exceptions_hold_the_numbers_of_the_call():
    def f(x):
        error = ValueError("too large", x, np.float64(x) * 2, x * np.ones(2))
        error.number = x
        raise error

    with pytest.raises(ValueError, match="too large") as caught:
        aj.compile(f, backend="interpret")(3.0)
    _, number, double, both = caught.value.args
    assert (number, type(number), double, caught.value.number) == (3.0, float, 6.0, 3.0)
    np.testing.assert_array_equal(both, [3, 3])
