"""What type checkers say of compiled functions, of transforms, and of loops and branches. Checked by `make types`, not run."""

from typing import Any, assert_type

import numpy as np
from numpy.typing import NDArray

import adjit as aj

Array = NDArray[np.float64]
X: Array = np.ones(3)


# -- compile


@aj.compile
def norm(x: Array, scale: float = 1.0) -> float:
    return float(np.sqrt(np.sum(x * x)) * scale)


@aj.compile(donate="x", threads=1)
def step(x: Array, y: Array) -> tuple[Array, float]:
    return x + y, 1.0


assert_type(norm(X, scale=2.0), float)
assert_type(step(X, X), tuple[Array, float])
assert_type(norm.cache_info().traces, int)
assert_type(norm.explain(X), str)
assert_type(norm.__name__, str)
assert_type(norm.__wrapped__(X, 2.0), float)
assert_type(norm.as_callable(X).value_of_one, Any)
assert_type(norm.as_callable(X).value_and_grad, Any)
norm(X, 1.0, 2.0)       # type: ignore[call-arg]
norm(x="no array")      # type: ignore[arg-type]
step(X)                 # type: ignore[call-arg]
compiled: aj.CompiledFunction[[Array, Array], tuple[Array, float]] = aj.compile(step)
aj.compile(np.sin)(X)
aj.compile(lambda x, y: x * y)(X, 2.0)


class Model:
    @aj.compile
    def scaled(self, x: Array, by: float) -> Array:
        return x * by

    @aj.compile(static="times")
    def repeated(self, x: Array, times: int) -> Array:
        return np.concatenate([x] * times)


assert_type(Model().scaled(X, 2.0), Array)
assert_type(Model().repeated(X, times=3), Array)
assert_type(Model().scaled.ir("traced", X, 2.0), str)
Model().scaled(X)       # type: ignore[call-arg]


class Net(aj.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = aj.compile(aj.nn.Linear(3, 2))

    def forward(self, x: aj.Tensor) -> aj.Tensor:
        return self.first(x).relu()


assert_type(aj.compile(Net()), Net)
assert_type(aj.compile(threads=1)(aj.nn.Linear(3, 2)), aj.nn.Linear)
aj.compile(3)           # type: ignore[call-overload]


# -- transforms


def loss(params: dict[str, Array], x: Array, power: float = 2.0) -> np.float64:
    return np.sum((params["w"] * x) ** power)       # type: ignore[no-any-return, unused-ignore]


def with_aux(x: Array) -> tuple[np.float64, int]:
    return np.sum(x), 3


def product(x: Array, y: float) -> Array:
    return x * y


PARAMS = {"w": X}
assert_type(aj.grad(loss)(PARAMS, X), dict[str, Array])
assert_type(aj.grad(loss)(PARAMS, x=X, power=3.0), dict[str, Array])
assert_type(aj.grad(loss, argnums=(0, 1))(PARAMS, X), tuple[Any, ...])
assert_type(aj.grad(loss, 1)(PARAMS, X), Any)
assert_type(aj.grad(with_aux, has_aux=True)(X), tuple[Array, int])
assert_type(aj.grad(norm)(X), Array)
assert_type(aj.value_and_grad(loss)(PARAMS, X), tuple[np.float64, dict[str, Array]])
assert_type(aj.value_and_grad(loss, argnums=(0, 1))(PARAMS, X), tuple[np.float64, tuple[Any, ...]])
assert_type(aj.value_and_grad(with_aux, has_aux=True)(X), tuple[tuple[np.float64, int], Array])
assert_type(aj.value_and_grad(aj.compile(loss))(PARAMS, X), tuple[np.float64, dict[str, Array]])
assert_type(aj.compile(aj.grad(loss))(PARAMS, X), dict[str, Array])
assert_type(aj.jacobian(product)(X, 2.0), Any)
assert_type(aj.hessian(loss)(PARAMS, X), Any)
assert_type(aj.jvp(product, (X, 2.0), (X, 1.0)), tuple[Array, Array])
assert_type(aj.hvp(loss, (PARAMS,), (PARAMS,)), dict[str, Array])
assert_type(aj.checkpoint(product)(X, 2.0), Array)
assert_type(aj.stop_gradient(PARAMS), dict[str, Array])
aj.grad(loss)(X, X)                 # type: ignore[arg-type]
aj.grad(loss)(PARAMS)               # type: ignore[call-arg]
aj.checkpoint(product)("a", 2.0)    # type: ignore[arg-type]
aj.grad(np.sin)(1.0)
aj.grad(lambda x: np.sum(x * x))(X)
aj.grad(aj.grad(np.sin))(1.0)

value, pullback = aj.vjp(product, X, 2.0)
assert_type(value, Array)
of_x, of_y = pullback(X)
assert_type(of_y, float)
of_x, of_y, of_z = pullback(X)      # type: ignore[misc]


@aj.custom_vjp
def clipped(x: Array) -> Array:
    return x


clipped.defvjp(lambda x: (x, None), lambda residuals, cotangent: (np.clip(cotangent, -1.0, 1.0),))
clipped.defvjp(product, lambda residuals, cotangent: (cotangent,))      # type: ignore[arg-type]     # no pair
assert_type(clipped(X), Array)
assert_type(clipped.__name__, str)


# -- loops and branches


def total(i: int, carry: Array) -> Array:
    return carry * 2.0 + i      # type: ignore[no-any-return, unused-ignore]


def running(carry: float, x: float) -> tuple[float, Array]:
    return carry + x, X


def is_small(x: Array) -> bool:
    return bool(x[0] < 100.0)


def positive(x: Array) -> Array:
    return x


def to_text(i: int, x: float) -> str:
    return str(x * i)


def text_of(x: Array) -> str:
    return str(x)


assert_type(aj.fori_loop(0, 3, total, X), Array)
assert_type(aj.fori_loop(lower=0, upper=3, body_fun=total, init_val=X), Array)
assert_type(aj.while_loop(is_small, positive, X), Array)
assert_type(aj.scan(running, 0.0, 1.0), tuple[float, Array])
assert_type(aj.scan(running, 0.0, X), tuple[float, Array])
assert_type(aj.fori_loop(0, 3, total, 1.0), Array)
assert_type(aj.while_loop(is_small, positive, 1.0), Array)
assert_type(aj.while_loop(lambda x: x < 100.0, lambda x: x * 2.0, 3.0), float)
aj.while_loop(lambda state: state[0] < 3, lambda state: (state[0] + 1, state[1] * 2.0), (0, X))
aj.fori_loop(0, 3, lambda i, state: {"w": state["w"] * 2.0}, {"w": X})
aj.fori_loop(0, 3, lambda i, x: np.sin(x), X)
aj.fori_loop(0, 3, lambda i, x: x * 0.5, 1)
aj.while_loop(lambda x: x < 3.0, np.exp, 0.0)
aj.scan(lambda carry, _: (carry * 2.0, carry), 1.0, length=3)
aj.scan(lambda carry, x: (carry, x["a"]), 1.0, {"a": X})
aj.fori_loop(0, 3, to_text, 1.0)                            # type: ignore[arg-type]
aj.while_loop(is_small, text_of, X)                         # type: ignore[arg-type]
aj.scan(to_text, 1.0, X)                                    # type: ignore[arg-type]
assert_type(aj.cond(True, positive, positive, X), Array)
aj.fori_loop(0, 3, lambda i, x: x * 2.0 + i, X)
aj.fori_loop(0, 3, lambda x: x, X)                          # type: ignore[misc, arg-type]
aj.fori_loop(lo=0, hi=3, f=total, init=X)                   # type: ignore[call-overload]
aj.while_loop(lambda x: x[0] < 100.0, lambda x: x * 2.0, X)
aj.scan(lambda carry, x: (carry + x, None), 0.0, X)
aj.cond(True, lambda x: x, lambda x: -x, X)
aj.cond(True, np.sin, np.cos, 0.0)
aj.cond(True, product, product, X)      # type: ignore[arg-type]


# -- what is recorded


@aj.no_grad
def bare(x: Array) -> Array:
    return x


@aj.no_grad()
def called(x: Array) -> Array:
    return x


@aj.set_grad_enabled(False)
def switched(x: Array) -> Array:
    return x


with aj.no_grad(), aj.enable_grad(), aj.set_grad_enabled(True), aj.autograd.detect_anomaly():
    pass
assert_type(bare(X), Array)
assert_type(called(X), Array)
assert_type(switched(x=X), Array)
bare("a")           # type: ignore[arg-type]
aj.no_grad(1)       # type: ignore[call-overload]
