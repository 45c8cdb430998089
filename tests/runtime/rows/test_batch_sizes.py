"""One program for every batch size: `compile(batch=...)`, against programs made for the size, and what has a program a size."""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pytest
from support.native_calls import hot

import adjit as aj
from adjit.ir.errors import ArgumentError, DonationError
from adjit.ir.interpreter import interpret
from adjit.tracer.trees import flatten

SIZES = (0, 1, 2, 7, 64, 100, 1000)
RNG = np.random.default_rng(5)
X, Y = RNG.normal(size=(1000, 6)), RNG.normal(size=1000)
LABELS = RNG.integers(-4, 4, 1000)
W = {"a": RNG.normal(size=(6, 4)), "b": RNG.normal(size=4), "c": RNG.normal(size=(6, 6))}


LENGTH = len


def leaves(result: Any) -> list[np.ndarray]:
    return [np.asarray(leaf) for leaf in flatten(result)[0]]


def check(fun: Callable[..., Any], *args: Any, rows: tuple[int, ...], same_bits: bool = False, sizes: tuple[int, ...] = SIZES,
          backend: str = "native") -> Any:
    """Compare the program for any number of rows of the arguments `rows` to those made for each; returns the compiled function."""
    any_rows, exact = aj.compile(fun, batch=rows), aj.compile(fun, backend=backend)
    for size in sizes:
        given = [arg[:size] if index in rows else arg for index, arg in enumerate(args)]
        for one, two in zip(leaves(any_rows(*given)), leaves(exact(*given)), strict=True):
            assert one.shape == two.shape
            assert one.dtype == two.dtype
            if same_bits:
                assert np.array_equal(one, two, equal_nan=True), size
            else:
                assert np.allclose(one, two, rtol=1e-10, atol=1e-12, equal_nan=True), size
    return any_rows


def made(compiled: Any) -> int:
    """Number of programs that were made, but for no rows."""
    return sum("[0" not in "".join(program.signature.descriptions()) for program in compiled.programs())


ROW_WISE: dict[str, Callable[..., Any]] = {
    "elementwise": lambda x: (np.exp(-x * x), 3 * x, x > 0),
    "along rows": lambda x: (np.sum(x, axis=1), np.max(x, axis=1), np.argmax(x, axis=1), np.sort(x, axis=1), np.cumsum(x, axis=1)),
    "equations of one matrix": lambda x: np.linalg.solve(W["c"], x.T).T,
    "shapes": lambda x: (x.reshape(x.shape[0], 2, 3), x[:, ::-1], x[:, 1:3], np.concatenate([x, np.ones((x.shape[0], 2))], axis=1),
                         x[:, None, :] + x[:, :, None], x.reshape(-1, 3)),
    "made for the size": lambda x: (np.zeros((x.shape[0], 2)), np.full(len(X[0]), 2.0) * x, np.ones(x.shape[0]) + x[:, 0]),
    "a size of sizes": lambda x: (x.size // x.shape[0] * x, x * 2 if x.shape[0] == x[:, 0].size else x),
    "not its rows": lambda x: (x, x),
}


@pytest.mark.parametrize("name", ROW_WISE)
def test_rows_keep_their_bits(name: str) -> None:
    assert made(check(ROW_WISE[name], X, rows=(0,), same_bits=True, sizes=SIZES[name == "a size of sizes":])) == 1


SUMS: dict[str, Callable[..., Any]] = {
    "sums": lambda x, y: (np.sum(x), np.mean(x, axis=0), np.mean(x * y[:, None]), np.prod(1 + x / 1e3, axis=0),
                          (1 / (x.shape[0] + 1)) * np.sum(y)),
    "products": lambda x, y: (x.T @ x, x.T @ y, y @ y, np.einsum("ij,ik->jk", x, x)),
    "extrema": lambda x, y: (np.any(x > 2), np.all(x > -9, axis=0), np.sum(x > 0)),
    "moments": lambda x, y: (np.var(x, axis=0), np.std(y, ddof=1) if y.size != 1 else y, (x - np.mean(x, axis=0)) / 2),
    "standardized": lambda x, y: (x - x.mean(axis=0)) / (1 + x.std(axis=0)),
}


@pytest.mark.parametrize("name", SUMS)
def test_sums_over_rows(name: str) -> None:
    assert made(check(SUMS[name], X, Y, rows=(0, 1))) == 1 or name == "moments"


COUNTS: dict[str, Callable[..., Any]] = {
    "len": lambda x: (np.sum(x) / len(x), x * (1 / len(x)), len(x) * x, np.ones(len(x)) + x[:, 0]),
    "powers and products": lambda x: (x / len(x) ** 2, x * (len(x) * (len(x) - 1) / 2), (1 - 1 / x.shape[0]) * x),
    "roots": lambda x: (np.sum(x) / np.sqrt(len(x)), x / math.sqrt(x.shape[0])),
    "a normal density": lambda x: -0.5 * len(x) * np.log(2 * np.pi) - len(x) / 2 * np.log(3.0) - np.sum(x * x),
    "quotients": lambda x: (x * (len(x) // 2), x + len(x) % 3, x * ((len(x) - 7) // -2), x * (len(x) // 2 / 7),
                            np.max(x, axis=0) / (1 + len(x) // 5)),
    "powers": lambda x: (x * len(x) ** 0.5, x * len(x) ** -1, x / x.shape[0] ** 0.3, x * np.power(len(x), -0.2)),
    "logarithms": lambda x: (np.sum(x) * np.log(len(x)), x - math.log(x.shape[0]), x * np.log2(1 + len(x)), x * math.log10(len(x)),
                             x * math.exp(1 / len(x)), math.sqrt(math.log(2 + len(x))) + x),
    "conversions": lambda x: (x * float(len(x)) / 3, x / int(x.shape[0]), x.astype(np.float32) * float(np.sqrt(len(x))),
                              x * divmod(len(x), 7)[1], x * abs(1 - len(x))),
    "powers of numbers": lambda x: x / (1 - 0.999 ** len(x)),
    "dtypes": lambda x: (x.astype(np.float32) * (1 / len(x)), x.astype(np.float32) * (np.float64(1.5) / len(x))),
}


@pytest.mark.parametrize("name", COUNTS)
def test_arithmetic_with_the_number_of_rows(name: str) -> None:
    same_bits = name in ("powers and products", "quotients", "dtypes", "conversions")
    assert made(check(COUNTS[name], X, rows=(0,), same_bits=same_bits, sizes=SIZES[1:])) == 1


def test_len_is_pythons_own_outside_of_the_trace() -> None:
    aj.compile(COUNTS["len"], batch=(0,))(X)
    assert "len" not in globals()


def test_extrema_of_no_rows_are_numpys_error() -> None:
    highest = check(lambda x: np.max(x, axis=0), X, rows=(0,), sizes=SIZES[1:])
    assert made(highest) == 1
    with pytest.raises(ValueError, match="zero-size array"):
        highest(X[:0])


def mean_squares(w: Any, x: Any, y: Any) -> Any:
    return np.mean((np.tanh(x @ w["a"] + w["b"]).sum(axis=1) - y) ** 2)


def cross_entropy(w: Any, x: Any, labels: Any) -> Any:
    z = x @ w["a"] + w["b"]
    z = z - np.max(z, axis=1, keepdims=True)
    return -np.mean(z[np.arange(x.shape[0]), labels] - np.log(np.sum(np.exp(z), axis=1)))


@pytest.mark.parametrize("loss", [mean_squares, cross_entropy])
def test_losses_and_gradients(loss: Callable[..., Any]) -> None:
    labels = LABELS if loss is cross_entropy else Y
    found = check(lambda w, x, y: aj.value_and_grad(loss)(w, x, y), W, X, labels, rows=(1, 2))
    assert made(found) == 1
    assert "one program for any number of rows of x, y" in found.explain()


def test_maps_over_rows() -> None:
    """A map over rows is computed for the rows of a panel at a time; one over something else is a loop."""
    def steps(x: Any) -> Any:
        return aj.map(lambda row: aj.while_loop(lambda z: np.abs(z * z - row[0] ** 2) > 1e-9, lambda z: 0.5 * (z + row[0] ** 2 / z),
                                                1.0 + row[1] ** 2), x)

    def loss(w: Any, x: Any) -> Any:
        found = aj.map(lambda row: {"y": np.tanh(w["c"] @ row) * row.sum(), "z": row[1:]}, x, batch=8)
        return np.sum(found["y"] ** 2) + np.sum(aj.map(np.sum, w["c"])) + np.sum(found["z"])

    assert made(check(steps, X, rows=(0,), sizes=(1, 2, 7, 100, 1000))) == 1
    assert made(check(lambda w, x: aj.value_and_grad(loss, argnums=(0, 1))(w, x), W, X, rows=(1,), sizes=(1, 2, 7, 100, 1000))) == 1


def test_gradients_of_columns_and_jacobians_of_few_rows() -> None:
    def columns(w: Any, x: Any) -> Any:
        return np.sum(np.tanh((x @ w)[:, [0, 0, 2]]) * x[:, [1, 1, 3]])

    found = check(lambda w, x: aj.value_and_grad(columns, (0, 1))(w, x), W["a"], X, rows=(1,), sizes=(1, 7, 77))
    jacobian = check(lambda p, x: aj.jacobian(lambda p: np.tanh(x @ p))(p), W["a"][:, 0], X, rows=(1,), sizes=(1, 2, 77))
    counted = check(lambda x: x * np.arange(len(x))[:, None], X, rows=(0,), sizes=(3, 77))
    assert [made(each) for each in (found, jacobian, counted)] == [1, 1, 1]


def test_a_training_step_in_place() -> None:
    adam = aj.optim.adam(1e-2)

    def step(params: Any, state: Any, x: Any, y: Any) -> Any:
        value, grads = aj.value_and_grad(mean_squares)(params, x, y)
        return *adam.update(params, grads, state), value

    compiled = aj.compile(step, donate=("params", "state"), batch={"x": 0, "y": 0})
    exact = aj.compile(step)
    params, mine = ({name: value.copy() for name, value in W.items()} for _ in range(2))
    state, own = adam.init(params), adam.init(mine)
    for size in (64, 64, 17, 64, 3, 1):
        kept = mine["a"]
        params, state, value = exact(params, state, X[:size], Y[:size])
        mine, own, found = compiled(mine, own, X[:size], Y[:size])
        assert mine["a"] is kept
        assert np.isclose(found, value)
        assert np.allclose(mine["a"], params["a"])
    assert compiled.cache_info().traces == 1


def test_rows_that_depend_on_sums_many_times_are_computed_once() -> None:
    def centred(x: Any) -> Any:
        for _ in range(12):
            x = 1.5 * (x - np.mean(x, axis=0)) + x
        return x

    found = check(centred, X, rows=(0,), sizes=(100,))
    assert made(found) == 1
    assert "13 loops over panels" in found.explain()
    assert found.ir("fused").count("= subtract") == 12 * 5       # for each of five sizes of panels


def test_embeddings_are_looked_up_and_trained() -> None:
    def loss(table: Any, index: Any, y: Any) -> Any:
        return np.mean((table[index].sum(axis=1) - y) ** 2)

    found = check(lambda table, index, y: aj.value_and_grad(loss)(table, index, y), W["a"], np.abs(LABELS), Y, rows=(1, 2))
    assert made(found) == 1


def test_indices_out_of_range_are_errors_and_nothing_is_written() -> None:
    def step(table: Any, index: Any) -> Any:
        return table - 0.1 * aj.grad(lambda t: np.sum(t[index]))(table)

    compiled = aj.compile(step, batch="index", donate="table")
    table = W["a"].copy()
    compiled(table, np.zeros(3, np.int64))
    before = table.copy()
    for index in (np.array([0] * 100 + [6]), np.array([6])):
        with pytest.raises(IndexError, match="index 6 is out of bounds for axis 0 with size 6"):
            compiled(table, index)
        assert np.array_equal(table, before)
    for _ in range(3):      # by the fast path, too
        with pytest.raises(IndexError, match="index -9 is out of bounds for axis 0 with size 6"):
            compiled(table, np.where(np.arange(300) == 290, -9, 0))
    own = aj.compile(cross_entropy, batch=("x", "labels"))
    own(W, X[:9], LABELS[:9])
    with pytest.raises(IndexError, match="out of range for its axis"):
        own(W, X[:9], np.full(9, 4))


def test_trees_of_rows_and_other_arguments() -> None:
    def f(data: Any, scale: float, flag: bool) -> Any:
        return {"sum": scale * np.sum(data["x"]), "rows": data["x"] + data["y"][:, None] if flag else data["x"]}

    compiled = aj.compile(f, batch="data")
    for size in (3, 70):
        data = {"x": X[:size], "y": Y[:size]}
        expected = f(data, 2.0, True)
        found = compiled(data, 2.0, flag=True)
        assert np.isclose(found["sum"], expected["sum"])
        assert np.array_equal(found["rows"], expected["rows"])
    assert compiled.cache_info().traces == 1
    compiled(data, 2.0, flag=False)
    assert compiled.cache_info().traces == 2


def test_arrays_that_are_not_contiguous() -> None:
    compiled = aj.compile(lambda x: x * 2, batch="x")
    for given in (X[:50], X[::2], X.T, X[:30, ::2], X[:100][::-1]):
        assert np.array_equal(compiled(given), given * 2)


def test_float32_and_integers() -> None:
    check(lambda x, n: (x * 2, n + 1, np.sum(n), np.max(x)), X.astype(np.float32), LABELS, rows=(0, 1), same_bits=True, sizes=(1, 2, 7))


def recurrent(w: Any, x: Any, y: Any) -> Any:
    """Loss of a network whose loop carries rows and a count, adds up rows, and has a branch on what all rows share."""
    def step(carry: Any, given: Any) -> Any:
        hidden, total, count = carry
        hidden = np.tanh(given @ w["a"] + hidden @ w["a"][:4] + w["b"] * count)
        hidden = aj.cond(count % 2 > 0, lambda h: h * w["b"], np.sin, hidden)
        return (hidden, total + 0.5 * np.sum(hidden * hidden), count + 1), (hidden, np.sum(hidden, axis=0))

    sequence = np.stack([x * scale for scale in (1.0, 0.5, 0.2)])
    start = np.zeros((len(x), 4)), 0.0, 0
    (hidden, total, count), (states, sums) = aj.scan(step, start, sequence)
    flat = states.reshape(-1, 4) @ w["c"][:4]       # three blocks of all rows
    return np.mean((hidden[:, 0] - y) ** 2) + total / len(x) + np.sum(sums) * count + np.mean(flat ** 2), (
        hidden, flat.reshape(3, -1, 6)[1])


def test_loops_of_the_program() -> None:
    def step(w: Any, x: Any, y: Any) -> Any:
        (loss, rows), grads = aj.value_and_grad(recurrent, has_aux=True)(w, x, y)
        return loss, grads, rows

    found = check(step, W, X, Y, rows=(1, 2), sizes=(1, 7, 1000), backend="interpret")
    assert made(found) == 1, found.explain()
    on_one = aj.compile(step, batch=(1, 2), threads=1)
    assert all(np.array_equal(*pair) for pair in zip(leaves(on_one(W, X, Y)), leaves(found(W, X, Y)), strict=True))


def test_what_a_loop_gives_is_kept_for_further_loops_over_rows() -> None:
    """Rows of states lie along another axis than the first; in memory between two loops over panels they are first."""
    def f(x: Any) -> Any:
        _, states = aj.scan(lambda h, _: (np.cos(h + 1), h), x, np.zeros(3))
        return np.sum((states - states.mean(axis=1, keepdims=True)) ** 2 * x, axis=(0, 2))

    found = check(f, X, rows=(0,), sizes=(2, 7, 100), backend="interpret")
    assert made(found) == 1
    assert "2 loops over panels of 64, 32, 8 and 1 rows" in found.explain()
    assert found.ir("planned").count(" = scan ") == 4       # one for each size of panels


def test_loops_that_rows_end() -> None:
    """A loop of each row goes on, by vmap, until all rows of a panel are done; those that are stay as they are."""
    def f(x: Any) -> Any:
        def root(c: Any) -> Any:
            return aj.while_loop(lambda z: abs(z * z - c) > 1e-12, lambda z: z - (z * z - c) / (2 * z), c)

        roots = aj.vmap(root)(np.abs(x[:, 0]) + 1)
        counted = aj.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1] / 3), (0, x))[1]
        return roots, counted, aj.cond(np.sum(x) > 0, np.negative, np.square, x)

    assert made(check(f, X, rows=(0,), same_bits=True, sizes=(1, 7, 1000), backend="interpret")) == 1


@pytest.mark.share(2)
@pytest.mark.parametrize("rolled", [True, False])
def test_loops_of_python(rolled: bool) -> None:
    """Loops that few rows and many roll alike are rolled; where many rows are too much to be gathered, they are written out."""
    inputs = RNG.normal(size=(99, 64, 2))

    def step(w: Any, x: Any, y: Any) -> Any:
        def loss(w: Any) -> Any:
            hidden, total = np.zeros((len(x), 4)), 0.0
            for number in range(64):
                given = x[:, number if rolled else number * number % 64]
                hidden = np.tanh(given @ w["a"][:2] + hidden @ w["a"][2:])
                total = total + np.mean((hidden[:, 0] - y) ** 2)
            return total
        return aj.value_and_grad(loss)(w)

    found = check(step, W, inputs, Y[:99], rows=(1, 2), sizes=(2, 99), backend="interpret")
    assert made(found) == 1, found.explain()
    assert ("= scan" in found.ir("optimized")) == rolled


def test_solvers_by_row() -> None:
    """Rows that are done compute with the values of one that is not; and stacks of matrices are solved row by row."""
    def roots(x: Any) -> Any:
        return aj.vmap(lambda row: aj.solve.root(lambda p: p ** 3 + p - row, np.zeros(2)).x)(x)

    assert made(check(roots, X[:, :2], rows=(0,), same_bits=True, sizes=(70, 1, 3))) == 1


def test_draws_of_random_numbers() -> None:
    key = aj.random.key(3)
    found = check(lambda key, x: x * aj.random.uniform(key, x.shape), key, X, rows=(1,), same_bits=True)
    assert made(found) == 1


def test_a_method() -> None:
    class Model:
        scale = 3.0

        @aj.compile(batch="x")
        def predict(self, x: Any) -> Any:
            return self.scale * x

    model = Model()
    for size in (4, 9, 200):
        assert np.array_equal(model.predict(X[:size]), 3.0 * X[:size])
    assert Model.predict.cache_info().traces == 1
    model.scale = 4.0
    assert np.array_equal(model.predict(X[:5]), 4.0 * X[:5])


def random_function(choose: Random, most: int = 9) -> Callable[..., Any]:
    """A random function of rows (n, 6), (n,) and a matrix (6, 6), as a list of steps on values of both kinds."""
    steps = [(choose.choice(STEPS), choose.random(), choose.random()) for _ in range(choose.randint(3, most))]

    def run(x: Any, y: Any, w: Any) -> Any:
        rows, shared, results = [x, x * y[:, None]], [w[0], np.sum(w)], []
        for step, one, two in steps:
            a, b = rows[int(one * len(rows))], shared[int(two * len(shared))]
            if step == "product":
                rows.append(np.tanh(a @ w))
            elif step == "shared":
                rows.append(a * b)
            elif step == "both":
                rows.append(np.where(a > 0.1, a, rows[int(two * len(rows))]))
            elif step == "of a row":
                rows.append(a - np.mean(a, axis=1, keepdims=True))
            elif step == "columns":
                rows.append(np.concatenate([a[:, 2:], a[:, :2]], axis=1))
            elif step == "sum":
                shared.append(np.mean(a, axis=0))
            elif step == "total":
                shared.append(np.sum(a * a) / a.size)
            elif step == "gram":
                shared.append((a.T @ rows[int(two * len(rows))])[0])
            elif step == "largest":
                shared.append(np.max(a, axis=0))
            results.append(a if two > 0.7 else b)
        return rows[-1], shared[-1], results

    return run


STEPS = ("product", "shared", "both", "of a row", "columns", "sum", "total", "gram", "largest")


@pytest.mark.parametrize("seed", range(4))
def test_random_functions(seed: int, exhaustive: bool) -> None:
    for number in range(40 if exhaustive else 1):
        fun = random_function(Random(1000 * seed + number))
        found = check(fun, X, Y, W["c"], rows=(0, 1), sizes=(1, 2, 7, 100))
        assert made(found) == 1 or "depend on sums over all rows" in found.explain() or "fewer than" in found.explain()


@pytest.mark.parametrize("kind", ["scan", "while", "nested", "cond"])
def test_random_loops(kind: str, exhaustive: bool) -> None:
    """Loops and branches whose bodies are random functions, and gradients: what is no program for any number of rows has one for each."""
    for number in range(8 if exhaustive else 0):
        choose = Random(f"{kind} {number}")
        inner, nested, flag = random_function(choose, 5), random_function(choose, 4), choose.random() < 0.5

        def loss(w: Any, x: Any, y: Any, inner: Any = inner, nested: Any = nested, flag: bool = flag) -> Any:
            def step(carry: Any) -> Any:
                count, rows, total = carry
                if kind == "nested":
                    rows, more = aj.fori_loop(0, 2, lambda _, c: (np.tanh(nested(c[0], y, w)[0]), c[1] + 1.0), (rows, 0.0))
                    total = total + more * flag
                rows, shared, _ = inner(rows, y, w)
                return count + 1, np.tanh(rows), total + np.mean(rows if flag else shared)

            if kind == "while":
                _, rows, total = aj.while_loop(lambda carry: carry[0] < 3, step, (0, x, 0.0))
            elif kind == "cond":
                _, rows, total = aj.cond(np.sum(x if flag else w) > 0, step, lambda carry: (carry[0], carry[1] * 2, 0.0), (0, x, 0.0))
            else:
                (_, rows, total), _ = aj.scan(lambda carry, _: (step(carry), None), (0, x, 0.0), np.zeros(3))
            return np.mean(rows * w[0]) + total, rows

        check(lambda w, x, y, loss=loss: aj.value_and_grad(loss, has_aux=True)(w, x, y), W["c"] / 2, X, Y, rows=(1, 2), sizes=(1, 2, 7, 77),
              backend="interpret")


# -- a program for each size


REFUSED: dict[str, tuple[Callable[..., Any], str]] = {
    "a comparison": (lambda x: x * 2 if x.shape[0] > 500 else x, "Python uses the number of rows itself, for a comparison"),
    "len": (lambda x: x * {7: 2.0, 100: 3.0}.get(len(x), 1.0), "Python uses the number of rows itself, for a key"),
    "len by another name": (lambda x: np.sum(x) / LENGTH(x), "Python uses the number of rows itself, for len()"),
    "a comparison of what is computed": (lambda x: x * (2.0 if 0.5 * len(x) > 40 else 1.0), "for a comparison"),
    "a comparison of NumPy's number": (lambda x: x * (2.0 if np.float64(2) / len(x) > 0.05 else 1.0), "for a comparison"),
    "powers of an array": (lambda x: x * np.full(x.shape[1], -1.0) ** len(x), "Python uses the number of rows itself, for np.power"),
    "sums of an array": (lambda x: x * ((np.arange(x.shape[1]) + len(x)) % 2), "for np.add"),
    "a remainder by a function": (lambda x: x * (np.add(np.arange(x.shape[1]), len(x)) % 2), "table is another one for another"),
    "a method": (lambda x: x * (len(x) / 4).is_integer(), "for is_integer()"),
    "reversed": (lambda x: x[::-1] * 2, "an index puts the rows in reverse order"),
    "a cut": (lambda x: x[:500] * 2, "some rows"),
    "a large cut": (lambda x: x[:200_000] * 2, "some rows"),
    "chunks": (lambda x: np.stack([np.mean(x[begin:begin + 128]) for begin in range(0, x.shape[0], 128)]), "for an index"),
    "a loop over rows": (lambda x: sum(np.sin(row[0]) for row in x), "number"),
    "a key": (lambda x: x * {7: 2.0, 100: 3.0}.get(x.shape[0], 1.0), "Python uses the number of rows itself, for a key"),
    "a text": (lambda x: x * len(str(x.shape[0])), "Python uses the number of rows itself, for a text"),
    "a remainder": (lambda x: x * (2.0 if x.shape[0] % 2 else 1.0), "Python uses the number of rows itself, for a decision"),
    "an integer": (lambda x: x * int(x.shape[0] / 3), "Python uses the number of rows itself"),
    "rows beside rows": (lambda x: x[1:] - x[:-1], "rows"),
    "products of rows": (lambda x: x @ x.T, "is not that of rows"),
    "sums of rows so far": (lambda x: np.cumsum(x, axis=0), "cumsum computes rows from other rows"),
    "in order": (lambda x: np.sort(x, axis=0), "sort goes along the rows"),
    "transposed": (lambda x: x.T * 2, "another axis"),
    "a decision": (lambda x: x if np.sum(x) > 1e9 else -x, "decides on values"),
    "the size": (lambda x: (x, x.shape[0]), "returns"),
    "half of the rows": (lambda x: np.sum(x[:x.shape[0] // 2]), "is not that of rows"),
    "half of the rows as a shape": (lambda x: x * np.ones(x.shape[0] // 2).size, "a number depends on the number of rows"),
    "beyond exact floats": (lambda x: np.sum(x) / x.shape[0] ** 3, "Python uses the number of rows itself"),
    "a division by what may be zero": (lambda x: np.sum(x) * (1.0 / (x.shape[0] - 5)), "Python uses the number of rows itself"),
    "a cut size": (lambda x: np.sum(x) / np.minimum(x.shape[0], 200_000), "Python uses the number of rows itself, for np.minimum"),
    "no rows": (lambda x: np.ones(3) * x.shape[1], "nothing is computed from the rows"),
    "a loop over rows of the program": (lambda x: aj.scan(lambda carry, row: (carry + np.sin(row), None), np.zeros(6), x)[0],
                                        "scan takes the rows one after the other"),
    "a sum within a loop, of which rows are made": (
        lambda x: aj.fori_loop(0, 3, lambda _, h: h - 0.1 * np.sum(h, axis=0), x), "rows depend on a sum over all rows, within a loop"),
    "a largest row within a loop": (
        lambda x: aj.scan(lambda h, _: (np.tanh(h), np.max(h)), x, np.ones(3))[1], "reduce_max combines rows in another way"),
    "rows that are done within a loop": (
        lambda x: aj.while_loop(lambda z: np.any(z > 0.1), lambda z: z / 2, x), "while_loop changes rows that are done until all rows are"),
    "a product of sums within a loop": (
        lambda x: aj.scan(lambda h, _: (np.tanh(h), np.sum(h) ** 2), x, np.ones(3))[1], "square is given a sum over all rows"),
    "a cosine of the size": (lambda x: np.sum(x) / np.cos(x.shape[0]), "Python uses the number of rows itself, for np.cos"),
    "a logarithm of what may be zero": (lambda x: np.sum(x) * np.log(x.shape[0] - 5.0), "Python uses the number of rows itself"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_a_program_for_each_size(name: str) -> None:
    fun, reason = REFUSED[name]
    compiled = aj.compile(fun, batch=(0,))
    for size in (7, 100, 1000):
        for one, two in zip(leaves(compiled(X[:size])), leaves(fun(X[:size])), strict=True):
            assert np.allclose(one, two), size
    assert compiled.cache_info().traces == 3
    (line,) = [line for line in compiled.explain().splitlines() if line.startswith("a program for each number of rows of x, because")]
    assert reason in line


def test_numbers_that_are_the_same_for_all_sizes_that_are_traced() -> None:
    """Remainders of those by 13 are 2, 3 and 5; one of them is even."""
    for fun, reason in ((lambda x: x * ((len(x) % 13) // 6), "the same for those that are traced"), (lambda x: x * (len(x) % 2), None),
                        (lambda x: x * math.gcd(len(x), 6), "itself"), (lambda x: x * (2.0 if type(len(x)) is int else 1.0), None)):
        compiled = aj.compile(fun, batch=(0,))
        for size in (7, 64):
            np.testing.assert_array_equal(compiled(X[:size]), fun(X[:size]))
        assert reason is None or reason in compiled.explain()
        assert (reason is None) == (compiled.cache_info().traces == 1)


def test_what_happens_from_a_number_of_rows_on_happens() -> None:
    """Python is asked for the least of two numbers by functions that show it at no size that is traced."""
    compiled = aj.compile(lambda x: np.sum(x) / min(x.shape[0], 1_200_000), batch="x")
    for size in (5, 1_000_000, 1_000_000, 1_000_000, 1_500_000):
        assert np.isclose(compiled(np.ones(size)), size / min(size, 1_200_000))
    assert compiled.cache_info().traces == 2


def test_the_reason_has_a_line() -> None:
    def f(x: Any) -> Any:
        if x.shape[0] > 5:
            return x + 1
        return x

    compiled = aj.compile(f, batch="x")
    compiled(X)
    assert f"test_batch_sizes.py:{f.__code__.co_firstlineno + 1} in f" in compiled.explain()


def test_one_row_may_be_a_special_case() -> None:
    compiled = aj.compile(lambda x: np.squeeze(x[:, :1]), batch="x")
    for size in (2, 5, 1, 9, 1):
        assert compiled(X[:size]).shape == np.squeeze(X[:size, :1]).shape
    assert compiled.cache_info().traces == 2
    line = compiled.__wrapped__.__code__.co_firstlineno
    for x in (X[:1], X):
        compiled(x)
        assert "because other operations run for one row, at " in compiled.explain()
        assert f"test_batch_sizes.py:{line} in" in compiled.explain()
    alone = aj.compile(lambda x: np.squeeze(x[:, :1]), batch="x")
    assert alone(X[:1]).shape == ()
    assert alone(X[:2]).shape == (2,)
    assert alone(X[:1]).shape == ()


def test_arguments_of_different_lengths_are_numpys_error() -> None:
    compiled = aj.compile(lambda x, y: x[:, 0] + y, batch=("x", "y"))
    compiled(X, Y)
    with pytest.raises(ValueError, match="broadcast"):
        compiled(X[:5], Y[:4])


def test_writes_to_rows() -> None:
    def double(x: Any) -> None:
        x *= 2

    compiled = aj.compile(double, batch="x")
    for size in (3, 50):
        x = X[:size].copy()
        compiled(x)
        assert np.array_equal(x, X[:size] * 2)


def test_any_number_of_threads_has_the_same_bits() -> None:
    """Rows are divided into parts, whose sums are combined in order; embeddings begin with what is added to."""
    def step(w: Any, x: Any, y: Any, index: Any) -> Any:
        value, gradients = aj.value_and_grad(mean_squares)(w, x, y)
        added = np.ones((6, 4)) + aj.grad(lambda t: np.sum(np.sin(y[:, None] * t[index])))(w["a"])
        return value, gradients, added, np.max(x, axis=0), np.prod(1 + x / 1e5, axis=0), np.sum(x > 0), np.tanh(x)

    compiled = [aj.compile(step, batch=("x", "y", "index"), threads=count) for count in (1, 2, 3)]
    x, y, index = RNG.normal(size=(20_000, 6)), RNG.normal(size=20_000), RNG.integers(0, 6, 20_000)
    exact = aj.compile(step)
    for size in (1, 255, 256, 383, 1000, 2049, 20_000):
        given = W, x[:size], y[:size], index[:size]
        first, *others = [leaves(each(*given)) for each in compiled]
        for other in others:
            assert all(np.array_equal(one, two) for one, two in zip(first, other, strict=True)), size
        assert all(np.allclose(one, two, rtol=1e-10) for one, two in zip(first, leaves(exact(*given)), strict=True)), size
    with pytest.raises(IndexError, match="index 9 is out of bounds for axis 0 with size 6"):
        compiled[1](W, x, y, np.where(np.arange(20_000) == 19_000, 9, index))


def test_functions_of_many_operations_have_few_sizes_of_panels() -> None:
    """What a loop over rows does is code for each size."""
    def steps(w: Any, x: Any) -> Any:
        carry = x
        for _ in range(60):
            carry = np.tanh(carry @ w + x)
        return carry

    w = RNG.normal(size=(50, 50)) / 9
    x = RNG.normal(size=(29, 50))
    compiled = aj.compile(lambda x: steps(w, steps(w, x)), batch=0)
    for size in (7, 29):
        assert np.allclose(compiled(x[:size]), steps(w, steps(w, x[:size])))
    (op,) = [op for op in compiled.programs()[0].pipeline.final.ops if op.name == "panels"]
    assert (op.attrs["sizes"], op.attrs["padded"]) == ((64, 8, 1), True)


def test_sums_of_more_bytes_than_parts_may_have() -> None:
    """Sums as large as these are carried from panel to panel, on all threads together."""
    x = RNG.normal(size=(300, 400))
    one, two = (aj.compile(lambda x: x.T @ x, batch="x", threads=count) for count in (1, 2))
    assert np.array_equal(one(x), two(x))
    assert np.allclose(one(x), x.T @ x)


def test_few_rows_of_large_sums_begin_without_zeros() -> None:
    """All ways of sums to begin; sizes with panels of one, two and three sizes, and padded ones, of which no row may be added twice."""
    x, index, weights = RNG.normal(size=(399, 40)), RNG.integers(0, 100, 399), RNG.normal(size=399)

    def sums(x: Any, index: Any) -> Any:
        table = aj.grad(lambda table: np.sum(np.sin(x[:, :20] * table[index])))(np.ones((100, 20)))
        counted = np.zeros(100, int)
        np.add.at(counted, index, index)
        pairs = aj.numpy.arange(2 * len(index)).reshape(-1, 2)
        numbered = aj.numpy.take(weights, aj.numpy.arange(len(index))) + aj.numpy.take(weights, pairs[:, 1] // 2)
        own = x[np.arange(len(index)), index % 40]
        sums = np.sum(own), np.prod(1 + x / 99, axis=0), np.max(x, axis=0), np.any(x > 3)
        return x.T @ np.tile(x, 2), sums, table, counted, numbered, np.cos(x)

    found = check(sums, x, index, rows=(0, 1), sizes=(1, 2, 3, 7, 15, 53, 67, 255, 399), backend="interpret")
    assert made(found) == 1
    (op,) = [op for op in found.programs()[0].pipeline.final.ops if op.name == "panels"]
    assert op.attrs["beginnings"] == 3
    assert op.attrs["padded"]


@pytest.mark.parametrize("columns", [6, 60])
def test_panels_run_by_numpy_as_in_machine_code(columns: int) -> None:
    X = RNG.normal(size=(700, columns))
    compiled = aj.compile(lambda x: (np.sum(x, axis=0), np.max(x), x * 2, x.T @ x), batch="x")
    for size in (5, 9, 700):
        compiled(X[:size])
        (program,) = compiled.programs()
        graph = program.pipeline.graphs["traced"]
        for one, two in zip(interpret(graph, (X[:size], np.array(size))), compiled(X[:size]), strict=True):
            assert np.allclose(one, two)
    assert any(op.attrs.get("padded") for op in graph.ops) == (columns == 60)


def test_options_are_checked() -> None:
    with pytest.raises(ArgumentError, match="axis 1"):
        aj.compile(lambda x: x, batch={"x": 1})
    with pytest.raises(ArgumentError, match="not an argument"):
        aj.compile(lambda x: x, batch="y")
    with pytest.raises(ArgumentError, match="static and have rows"):
        aj.compile(lambda x: x, batch="x", static="x")


def test_calls_run_no_python() -> None:
    """Sizes change from call to call; small results are in NumPy's memory, large ones in blocks, and all lengths are checked."""
    compiled = aj.compile(lambda x, y: (np.sum(x), x * y[:, None], {"y": y + 1}), batch=(0, 1))
    wide, long = np.tile(X, (40, 1)), np.tile(Y, 40)
    for size in (3, 3, 3, 8, 40_000, 1, 500, 20_000, 2):
        total, product, more = compiled(wide[:size], long[:size])
        assert np.isclose(total, np.sum(wide[:size]))
        assert np.array_equal(product, wide[:size] * long[:size, None])
        assert np.array_equal(more["y"], long[:size] + 1)
    (program,) = compiled.programs()
    assert program.runs < program.calls == 9
    with pytest.raises(ValueError, match="broadcast"):
        compiled(X[:5], Y[:4])
    assert compiled(X[:0], Y[:0])[1].shape == (0, 6)
    unused = aj.compile(lambda w, x, y: aj.hessian(lambda w: np.mean((x @ w - y) ** 2))(w), batch=(1, 2))
    for size in (3, 3, 3, 8, 100):
        unused(X[0], X[:size], Y[:size])
    (program,) = unused.programs()
    assert program.runs < program.calls == 5


def test_short_calls_keep_the_interpreter_to_themselves() -> None:
    """To let other threads run takes as long as a call of few rows. Loops that may be long, however few rows there are, do let them run."""
    short = aj.compile(lambda x, w: np.mean(np.exp(x @ w)), batch=0)
    long = aj.compile(lambda x, w: aj.while_loop(lambda s: s[0] > 1, lambda s: (s[0] / 2, s[1] @ w), (np.sum(w ** 2), x))[1], batch=0)
    for compiled, w in ((short, W["b"][:1]), (long, np.ones((1, 1)))):
        for size in (3, 3, 900):
            compiled(X[:size, :1], w)
    least, always = (compiled.programs()[0].executable.rows_without_gil for compiled in (short, long))
    assert 200 < least < 100_000
    assert always == 0
    assert "panels of 512, 256, 128, 64, 32, 16, 8, 4, 2 and 1 rows" in short.explain()        # of few numbers


def test_donated_arrays_share_no_memory_with_rows() -> None:
    memory = np.zeros(700)
    weights, rows = memory[600:606], memory[:594].reshape(-1, 6)
    compiled = hot(aj.compile(lambda w, x: w + np.sum(x, axis=0), donate="w", batch="x"), weights, rows)
    before = compiled.programs()[0].runs
    assert compiled(weights, rows) is weights
    assert compiled.programs()[0].runs == before
    with pytest.raises(DonationError, match="shares memory"):        # as many rows as reach into the weights
        compiled(weights, memory[:696].reshape(-1, 6))


def test_results_of_rows_take_no_donated_memory() -> None:
    """64 rows of 64 numbers have the type of the weights, whose memory 100 rows would overflow."""
    given = np.linspace(-1, 1, 6400).reshape(100, 64)
    weights = np.eye(64)
    result = aj.compile(lambda w, x: np.tanh(x @ w), donate="w", batch="x")(weights, given)
    assert not np.shares_memory(result, weights)
    assert np.allclose(result, np.tanh(given))


def test_other_backends_have_a_program_for_each_size() -> None:
    compiled = aj.compile(lambda x: x * 2, batch="x", backend="interpret")
    for size in (1, 5):
        assert np.array_equal(compiled(X[:size]), X[:size] * 2)


def test_reports() -> None:
    compiled = aj.compile(lambda x: np.sum(np.sin(x)), batch="x")
    compiled(X)
    assert "panels" in compiled.ir("optimized")
    assert "x: f64[rows,6]" in compiled.explain()
    assert compiled.profile(X[:300]).milliseconds > 0
    assert compiled.memory(X[:10]).blocks
    assert compiled.cache_info().traces == 1


def test_traces_of_rows_of_zeros_leave_nothing() -> None:
    state: dict[str, Any] = {"calls": np.zeros(2), "last": None}

    def raises_for_zeros(x: Any) -> Any:
        state["calls"] += 1
        state["last"] = np.sum(x)
        if not x.any():
            raise RuntimeError("zeros")
        return x * 2

    def written_by_python(x: Any) -> Any:
        state["calls"][0] += 1
        return x * np.frombuffer(state["calls"])[0]

    for function, expected in ((raises_for_zeros, [1, 1]), (written_by_python, [2, 1])):
        aj.compile(function, batch="x")(Y[:7])
        assert np.array_equal(state["calls"], expected)
