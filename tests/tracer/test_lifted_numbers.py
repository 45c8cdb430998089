"""Counters, flags and step sizes in Python numbers: loops and branches that change them are one program, and the numbers are Python's."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import adjit as aj


def newton(a):
    x, k = a, 0
    while abs(x * x - a) > 1e-10:
        x = 0.5 * (x + a / x)
        k += 1
        if k > 100:
            break
    return x, k


def bisection(c):
    low, high, steps = 0.0 * c, c + 1.0, 0
    while high - low > 1e-9:
        middle = 0.5 * (low + high)
        steps += 1
        if middle ** 3 < c:
            low = middle
        else:
            high = middle
    return 0.5 * (low + high), steps


def line_search(start):
    x, total = start, 0
    slope = 4 * (x - 2.0) ** 3 + 2 * (x - 2.0)
    while abs(slope) > 1e-6:
        t, k = 1.0, 0
        value = (x - 2.0) ** 4 + (x - 2.0) ** 2
        while (x - t * slope - 2.0) ** 4 + (x - t * slope - 2.0) ** 2 > value - 0.3 * t * slope * slope:
            t *= 0.5
            k += 1
        x, total = x - t * slope, total + k
        slope = 4 * (x - 2.0) ** 3 + 2 * (x - 2.0)
    return x, total


def adaptive_heun(k):
    time, y, step, accepted, rejected = 0.0 * k, 1.0 + 0 * k, 0.1 + 0 * k, 0, 0
    while time < 2.0:
        if time + step > 2.0:
            step = 2.0 - time
        first = -k * y
        second = -k * (y + step * first)
        error = abs(step * (second - first) / 2)
        if error < 1e-4:
            time = time + step
            y = y + step * (first + second) / 2
            accepted += 1
        else:
            rejected += 1
        step = step * 0.9 * (1e-4 / (error + 1e-12)) ** 0.5
    return y, accepted, rejected


def patience(x):
    best, wait, rounds = np.inf, 0, 0
    while True:
        loss = np.cos(3 * x) + 0.1 * x * x
        if loss < best:
            best = loss
            wait = 0
        else:
            wait += 1
        if wait > 3:
            break
        rounds += 1
        if rounds >= 60:
            break
        x = x - 0.35 * (-3 * np.sin(3 * x) + 0.2 * x)
    return best, rounds


def collatz(n):
    steps = 0
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
    return steps


def metropolis(data):
    x, accepted, total = data[40], 0, 0.0
    for i in range(20):
        proposal = x + (data[i] - 0.5)
        if np.exp(x * x - proposal * proposal) > data[i + 20]:
            x = proposal
            accepted += 1
        total = total + x
    return total, accepted


def cordic(angle):
    x, y, z = 1.0 + 0.0 * angle, angle, 0.0 * angle
    for i in range(20):
        sign = 1 if y < 0 else -1
        x, y, z = x - sign * y * 2.0 ** -i, y + sign * x * 2.0 ** -i, z - sign * np.arctan(2.0 ** -i)
    return z


def events(x):
    count = 0
    for i in range(200):
        if x[i] > 0:
            count += 1
    return count


def annealing(data):
    x, temperature, moves = data[0], 1.0, 0
    while temperature > 0.5:
        new = x + (data[1] - 0.5) * temperature
        if new * new < x * x or np.exp((x * x - new * new) / temperature) > 0.7:
            x = new
            moves += 1
        temperature *= 0.99
    return x, moves


def series(x):
    term, total, n = x, x, 0
    while abs(term) > 1e-12:
        n += 1
        term = term * (-x * x / ((2 * n) * (2 * n + 1)))
        total = total + term
    return total, n


def secant(a):
    before, x = a, a + 1.0
    for i in range(50):     # noqa: B007
        old, new = before * before * before - a, x * x * x - a
        if abs(new) < 1e-9:
            break
        before, x = x, x - new * (x - before) / (new - old)
    return x, i


def power_series(x):
    total, term = 0.0 * x, 1.0 + 0.0 * x
    for n in range(1, 60):
        term = term * x / n
        total = total + term / (2 * n + 1) * n ** 2
        if abs(term) < 1e-9:
            break
    return total, n


def last_event(x):
    total, last = 0.0, -1
    for i in range(8):
        if x[i] < 0:
            continue
        total, last = total + x[i], i
        if total > 2.0:
            break
    else:
        total = total - 100.0
    return total, last, i


def scalar(low, high):
    return lambda rng: np.float64(rng.uniform(low, high))


def vector(size):
    return lambda rng: rng.normal(size=size)


CASES: dict[Callable[..., Any], tuple[Callable[..., Any], int]] = {
    newton: (scalar(0.5, 8), 1), bisection: (scalar(0.5, 8), 1), line_search: (scalar(-3, 6), 1), adaptive_heun: (scalar(0.5, 3), 1),
    patience: (scalar(-2, 2), 1), collatz: (lambda rng: np.int64(rng.integers(2, 30)), 1), metropolis: (vector(41), 2),
    cordic: (scalar(-0.9, 0.9), 2), events: (vector(200), 1), annealing: (vector(2), 2), series: (scalar(-2, 2), 1),
    secant: (scalar(0.5, 8), 1), power_series: (scalar(-2, 2), 1), last_event: (vector(8), 4)}


NATIVELY = (newton, line_search, metropolis, secant, series)


@pytest.mark.share(3)
@pytest.mark.parametrize(("function", "backend"), [*((function, "interpret") for function in CASES),
                                                   *((function, "native") for function in NATIVELY)],
                         ids=lambda part: part if isinstance(part, str) else part.__name__)
def test_loops_that_count_are_one_program(function: Callable[..., Any], backend: str) -> None:
    make, most = CASES[function]
    compiled = aj.compile(function, backend=backend)
    rng = np.random.default_rng(1)
    for _ in range(12 if backend == "interpret" else 4):
        given = make(rng)
        same(function(given), compiled(given), 0 if backend == "interpret" else 1e-9)
    assert compiled.cache_info().traces <= most
    assert compiled.cache_info().size <= (1 if most < 4 else 2)


def same(expected: Any, found: Any, tolerance: float = 0) -> None:
    """Check types and numbers of two results."""
    expected, found = (x if type(x) is tuple else (x,) for x in (expected, found))
    assert list(map(type, expected)) == list(map(type, found))
    for one, other in zip(expected, found, strict=True):
        if type(one) is np.float64 and tolerance:
            np.testing.assert_allclose(other, one, rtol=tolerance, atol=tolerance)
        else:
            assert repr(one) == repr(other)


@pytest.mark.parametrize("function", [newton, metropolis, cordic, annealing, series, secant], ids=lambda function: function.__name__)
def test_gradients_of_loops_that_count(function: Callable[..., Any]) -> None:
    def value(x):
        result = function(x)
        return result[0] ** 2 if type(result) is tuple else result ** 2

    rng = np.random.default_rng(3)
    for _ in range(2):
        given = np.asarray(CASES[function][0](rng))
        numeric = np.zeros_like(given)
        for index in np.ndindex(given.shape):
            step = np.zeros_like(given)
            step[index] = 1e-6
            numeric[index] = (value(given + step) - value(given - step)) / 2e-6
        np.testing.assert_allclose(aj.grad(value)(given), numeric, rtol=2e-4, atol=2e-5)


# Numbers that Python needs, or that int64 cannot hold: ways as before, with Python's results.

def overflowing(x):
    a, b, c = 1, 1, 1
    while x > 1.0:
        x = x * 0.5
        a, b, c = b, a + b, 3 * c
    return a, c


def dividing(x):
    k, t = 3, 1.0
    while x > 1.0:
        x = x * 0.5
        k -= 1
        t -= 0.25
        x = x + 0.01 * (1 / k)
    return x, 1.0 / t, k // 2, k % 3


def indexing(x):
    names, k = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0], 0
    while x > 1.0:
        x = x * 0.5 + 0.0 * names[k]
        k += 1
    return x, k


def rounds_by_hand(x):
    weights, total = [1.0, 2.0, 3.0], 0.0
    for i in range(3, 0, -1):
        total = total + weights[i - 1] * x
        if total > 20.0:
            break
        for j in range(i):
            total = total + j
            if total > 40.0:
                return total, i, j
    return total, i, None


def no_rounds(x):
    i = 7
    for i in range(0):     # noqa: B007
        if x > 0:
            break
    return x * i, i


def flags(x):
    found, k = False, 0
    while x > 1.0:
        x = x * 0.5
        if x < 3.0 and not found:
            found = True
            k = 7
    return x, found, k


def comparing(x):
    n, k = 0, 0
    while x > 1.0:
        x = x * 0.5
        k += 1
        n += k > 2
    return x, n, n == 2, k != 3


def text(x):
    k = 0
    while x > 1.0:
        x = x * 0.5
        k += 1
    return f"{k} rounds", str(k), {k: "k"}[k]


def shape(x):
    n = 2
    if x > 1.0:
        n = 3
    return (np.zeros(n) + x).sum(), n


def infinite(x):
    t = 1e300
    while x > 1.0:
        x = x * 0.5
        t = t * 1e5
    return t, -t, abs(t), -0.0 * t


def powers(x):
    k = 1
    while x > 1.0:
        x = x * 0.5
        k += 1
    return x * 2.0 ** -k, k ** 2, k // 2, k % 3, -k, k / 3, k << 1, ~k, round(k), divmod(k, 2)[0]


def small_integers(x):
    numbers, k = np.zeros(2, np.int8), 100
    while x > 1.0:
        x = x * 0.5
        k += 10
        numbers = numbers + k
    return x, numbers[0]


def small_elements(x):
    numbers, k = np.zeros(2, np.int8) + np.int8(x > 0.0), 100
    while x > 1.0:
        x = x * 0.5
        k += 10
        numbers[0] = k
    return x, numbers


def types(x):
    k = 0
    while x > 1.0:
        x = x * 0.5
        k += 1
    return type(k).__name__, isinstance(k, int), k


def helper(x, k):
    if x > 2.0:
        return x * 0.5, k + 1
    return x * 0.7, k


def helpers(x):
    k = 0
    while x > 1.0:
        x, k = helper(x, k)
    return x, k


def raising(x):
    k = 0
    while x > 1.0:
        x = x * 0.5
        k += 1
        if k > 5:
            raise RuntimeError("no convergence")
    return x, k


def two_names(x):
    k = j = 0
    while x > 1.0:
        x = x * 0.5
        if x > 4.0:
            k += 1
        else:
            j = k
    return k, j


def appended(x):
    history, k = [], 0
    while x > 1.0:
        x = x * 0.5
        history.append(x)
        k += 1
    return np.array(history).sum(), k


@pytest.mark.share(2)
@pytest.mark.parametrize("function", [overflowing, dividing, indexing, rounds_by_hand, no_rounds, flags, comparing, text, shape, infinite,
                                      powers, small_integers, small_elements, types, helpers, raising, two_names, appended],
                         ids=lambda function: function.__name__)
@pytest.mark.parametrize("order", [1, -1])
def test_numbers_mean_what_they_mean_in_python(function: Callable[..., Any], order: int) -> None:
    numbers = [0.5, 3.0, 20.0, 5.0, 60.0, 0.7] + [1e30] * (function in (overflowing, flags, raising, two_names, comparing))
    compiled = aj.compile(function, backend="interpret")
    for number in numbers[::order]:
        given = np.float64(number)
        try:
            expected = function(given)
        except (ZeroDivisionError, RuntimeError, OverflowError) as error:
            with pytest.raises(type(error)):
                compiled(given)
            continue
        same(expected, compiled(given))


last = None


def test_numbers_that_are_stored_outside_stay_numbers() -> None:
    def halved(x):
        global last
        k = 0
        while x > 1.0:
            x = x * 0.5
            k += 1
        last = k
        return x, k

    compiled = aj.compile(halved, backend="interpret")
    for number, rounds in ((5.0, 3), (20.0, 5)):
        assert compiled(np.float64(number)) == (number / 2 ** rounds, rounds)
        assert type(last) is int


class Solver:
    """Methods that store numbers, and read them at most behind that."""

    def counted(self, x):
        n = 0
        while x > 1.0:
            x = x / 2
            n += 1
        self.n = n
        return x

    def counting(self, x):
        y = 0.0 * x
        for _ in range(2):
            y = y + x
        self.n = 0
        while x > 1.0:
            x = x / 2
            self.n += 1
        return x + y

    def flagged(self, x):
        self.ok = True
        if x > 5:
            self.ok = False
        return x * 2

    def sometimes(self, x):
        if x > 5:
            self.label = "large"
        elif x < 1:
            self.label = None
        return x * 2


def method(name):
    def make():
        solver = Solver()
        return getattr(solver, name), lambda: vars(solver)
    return make


number = 0


def global_counter():
    def counting(x):
        global number
        number = 0
        while x > 1.0:
            x = x / 2
            number += 1
        return x
    return counting, lambda: number


def global_stored():
    def counted(x):
        global last
        n = 0
        while x > 1.0:
            x = x / 2
            n += 1
        last = n
        return x
    return counted, lambda: last


def cell_counter():
    number = 0

    def counting(x):
        nonlocal number
        number = 0
        while x > 1.0:
            x = x / 2
            number += 1
        return x
    return counting, lambda: number


def slot():
    class Slots:
        __slots__ = ("n",)

    slots = Slots()

    def counting(x):
        slots.n = 0
        while x > 1.0:
            x = x / 2
            slots.n += 1
        return x
    return counting, lambda: slots.n


def namespace():
    state = SimpleNamespace()

    def counted(x):
        n = 0
        while x > 1.0:
            x = x / 2
            n += 1
        state.n = n
        return x * state.n
    return counted, lambda: state


@pytest.mark.parametrize("transform", [aj.compile, lambda f: aj.compile(aj.value_and_grad(f), backend="interpret")])
@pytest.mark.parametrize("numbers", [(8.0, 8.0, 16.0, 8.0, 0.5, 2.0, 8.0), (0.5, 0.5, 8.0, 16.0, 2.0, 0.5, 8.0)])
@pytest.mark.parametrize("make", [*map(method, ("counted", "counting", "flagged", "sometimes")), global_counter, global_stored,
                                  cell_counter, slot, namespace])
def test_each_call_stores_its_numbers_outside(make: Any, numbers: Any, transform: Any) -> None:
    plain, plain_state = make()
    expected = []
    for x in numbers:
        expected.append((plain(np.float64(x)), repr(plain_state())))
    function, state = make()
    compiled = transform(function)
    for x, (result, then) in zip(numbers, expected, strict=True):
        found = compiled(np.float64(x))
        assert (found[0] if type(found) is tuple else found) == result
        assert repr(state()) == then


def test_a_place_that_others_change_is_stored_again() -> None:
    solver = Solver()
    compiled = aj.compile(solver.flagged)
    for x in (8.0, 0.5, 8.0, 0.5):
        solver.ok = "changed"
        compiled(x)
        assert solver.ok is (x < 5)
    assert compiled.cache_info().traces == 2
    compiled = aj.compile(solver.sometimes)
    for x in (2.0, 8.0, 2.0, 2.0):      # a way that stores nothing leaves what is there
        solver.label = "before"
        compiled(x)
        assert solver.label == ("large" if x > 5 else "before")
    assert compiled.cache_info().traces == 2


class Stepping(Solver):
    """A counter that another method adds to, which may be another object's."""

    def step(self):
        self.n += 1

    def stepping(self, x):
        self.n = 0
        while x > 1.0:
            x = x / 2
            self.step()
        return x


def test_a_number_that_another_method_adds_to_is_that_of_each_call() -> None:
    solver, plain = Stepping(), Stepping()
    solver.n = plain.n = 7
    compiled = aj.compile(solver.stepping)
    for x in (8.0, 16.0, 8.0, 0.5, 2.0):
        assert (compiled(x), solver.n) == (plain.stepping(x), plain.n)


class Asking(Solver):
    def asking(self, x):
        n = 0
        while x > 1.0:
            x = x / 2
            n += 1
        if n > 50:
            return x * getattr(self, "n")       # noqa: B009
        self.n = n
        return x


def test_a_lifted_number_is_taken_away_for_the_next_trace() -> None:
    solver = Asking()
    compiled = aj.compile(solver.asking)
    for _ in range(2):
        assert compiled(8.0) == 1.0
        assert (type(solver.n), solver.n) == (int, 3)


def test_transforms_exports_and_methods_give_numbers(tmp_path: Any) -> None:
    with_count = aj.compile(aj.value_and_grad(newton, has_aux=True), backend="interpret")
    for number in (2.0, 1e4):
        (value, count), slope = with_count(np.float64(number))
        assert (value, count) == newton(np.float64(number))
        assert type(count) is int
        np.testing.assert_allclose(slope, 0.5 / np.sqrt(number), rtol=1e-6)
    assert with_count.cache_info().traces == 1
    compiled = aj.compile(newton)
    compiled.export(str(tmp_path / "newton.adjit"), np.float64(2.0))
    assert aj.load(str(tmp_path / "newton.adjit"))(np.float64(77.0)) == newton(np.float64(77.0))

    @aj.compile(backend="interpret")
    def tensors(t):
        k = 0
        while t.sum() > 1.0:
            t, k = t * 0.5, k + 1
        return t, k

    assert [tensors(aj.tensor([size, size]))[1] for size in (3.0, 9.0)] == [3, 5]


def helper_by_identity(flag):
    return 1.0 if flag is True else 2.0


def by_identity(x):
    flag = False
    for i in range(3):
        if x > i:
            flag = not flag
    match flag:
        case True:
            return x * 2
        case False:
            return x * 3
        case _:
            return x * 1000


def by_identity_of_a_comparison(x):
    flag = False
    for i in range(3):
        if x > i:
            flag = i > 0
    return x if flag is False else 2 * x


def by_identity_elsewhere(x):
    flag = False
    for i in range(3):
        if x > i:
            flag = not flag
    return x * helper_by_identity(flag)


def caught(x):
    count = 0
    for i in range(3):
        if x > i:
            count += 1
    try:
        return x * 2.0**-count
    except:                 # noqa: E722
        return -x


def left_in_finally(x):
    count = 0
    while x > 0.2:
        x = x - 0.5
        count += 1
    for _ in range(1):
        try:
            x = x * float(f"{count}")
        finally:
            break           # noqa: B012
    return x


def suppressed(x):
    count, y = 0, x
    while y > 0.2:
        y = y - 0.5
        count += 1
    with contextlib.suppress(BaseException):
        return x * [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0][count]
    return -x


@pytest.mark.filterwarnings("ignore:calls of")
@pytest.mark.parametrize("function", [by_identity, by_identity_of_a_comparison, by_identity_elsewhere, caught, left_in_finally, suppressed])
def test_numbers_are_python_numbers_where_identity_or_exceptions_tell(function):
    """Identity of objects, and handlers of any exception: both would see that a traced scalar is none."""
    for values in ((0.5, 1.5, -1.0, 2.7, 0.1), (2.7, -1.0, 1.5, 0.5, 0.1)):
        compiled = aj.compile(function, backend="interpret")
        assert [float(compiled(x)) for x in values] == [float(function(x)) for x in values]
