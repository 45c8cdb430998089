"""Transforms as people type them: decorators with arguments, arguments by name, methods, dataclasses; vectors of parameters."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import adjit as aj


def product(x, y):
    return x * y * y


class Model:
    def __init__(self):
        self.scale = 2.0

    @aj.grad
    def slope(self, w):
        return np.sum(w * w) * self.scale

    @aj.value_and_grad(argnums=2)
    def both(self, a, w):
        return np.sum(w * w) * self.scale * a

    @aj.grad(argnames="w")
    def by_name(self, a, w):
        return np.sum(w * w) * self.scale * a

    @aj.vmap
    def norms(self, w):
        return np.sum(w * w) * self.scale

    @aj.vmap(in_axes=(None, 0, None))
    def shifted(self, w, by):
        return np.sum(w * w) * self.scale + by


@dataclasses.dataclass
class Parameters:
    w: np.ndarray
    name: str = "p"
    power: int = 3


def test_decorators_take_arguments_and_names():
    assert aj.grad(argnums=1)(product)(2.0, 3.0) == 12.0
    assert aj.value_and_grad(argnums=(0, 1))(product)(2.0, 3.0) == (18.0, (9.0, 12.0))
    assert aj.grad(product, argnum=1)(2.0, 3.0) == 12.0
    assert aj.grad(product, argnames="y")(2.0, y=3.0) == 12.0
    assert aj.grad(product, argnames=("y", "x"))(y=3.0, x=2.0) == (12.0, 9.0)
    assert aj.compile(aj.grad(product, argnames="y"))(2.0, 3.0) == 12.0


def test_methods_are_differentiated_by_what_follows_self():
    model, w = Model(), np.array([1.0, 2.0])
    np.testing.assert_array_equal(model.slope(w), 4 * w)
    model.scale = 3.0
    np.testing.assert_array_equal(model.slope(w), 6 * w)
    np.testing.assert_array_equal(model.both(2.0, w)[1], 12 * w)
    np.testing.assert_array_equal(model.by_name(2.0, w=w), 12 * w)


def test_methods_are_mapped():
    model, w = Model(), np.array([[1.0, 2.0], [0.0, 3.0]])
    np.testing.assert_array_equal(model.norms(w), [10.0, 18.0])
    model.scale = 3.0
    np.testing.assert_array_equal(aj.compile(model.norms)(w), [15.0, 27.0])
    np.testing.assert_array_equal(model.shifted(w, 1.0), [16.0, 28.0])


def test_static_fields_of_dataclasses_are_structure():
    found = aj.grad(lambda p: np.sum(p.w ** p.power))(Parameters(np.array([2.0])))
    assert (found.name, found.power, found.w.tolist()) == ("p", 3, [12.0])
    compiled = aj.compile(lambda p: p.w * p.power)
    assert compiled(Parameters(np.ones(1))) == 3
    assert compiled(Parameters(np.ones(1), power=5)) == 5


@pytest.mark.parametrize(("call", "message"), [
    (lambda: aj.grad(product, argnum=1, argnames="y"), "takes one of argnums, argnum and argnames"),
    (lambda: aj.grad(product, argnames="z"), r"product has no positional parameter 'z'; its parameters are x, y"),
    (lambda: aj.grad(product, argnums="y")(1.0, 2.0), r"positions of arguments, .*, not 'y'; names go to argnames='y'"),
    (lambda: aj.grad(product, argnums=1.0)(1.0, 2.0), r"positions of arguments, .*, not 1\.0$"),
    (lambda: aj.grad(1), r"takes the function first, not 1; as a decorator: @aj\.grad"),
])
def test_mistakes_are_named(call, message):
    with pytest.raises(TypeError, match=message):
        call()


@pytest.mark.parametrize(("name", "instead"), [("jit", "aj.compile"), ("lax", "aj.scan"), ("elementwise_grad", "aj.grad"),
                                               ("flatten_util", "aj.ravel_pytree"), ("np", "adjit.numpy")])
def test_names_of_other_libraries_say_what_there_is(name, instead):
    with pytest.raises(AttributeError, match=instead):
        getattr(aj, name)


def test_trees_as_vectors():
    tree = {"w": np.arange(6.0).reshape(2, 3), "b": (np.float32(1.5), 2.0)}
    vector, unravel = aj.ravel_pytree(tree)
    back = unravel(vector)
    assert back["b"] == (1.5, 2.0)
    assert back["b"][0].dtype == np.float32
    np.testing.assert_array_equal(back["w"], tree["w"])
    found = aj.grad(lambda v: np.sum(unravel(v)["w"] ** 2))(vector)
    np.testing.assert_array_equal(found, [*range(0, 12, 2), 0, 0])
    with pytest.raises(ValueError, match=r"has the shape \(3,\), expected \(8,\)"):
        unravel(np.zeros(3))


def test_gradients_are_checked():
    aj.check_grads(lambda x, y: np.sin(x) @ y, [np.ones(3), np.arange(3.0)], order=3)
    with pytest.raises(aj.errors.NonDifferentiableError, match="order 1 along a random direction"):
        aj.check_grads(lambda x: aj.stop_gradient(x) * x, [np.ones(3)])
    aj.check_grads(lambda z: np.exp(z) * np.abs(z), [np.array([0.5 + 0.3j, -1.0j])], order=2)
    with pytest.raises(aj.errors.NonDifferentiableError, match="order 1 along a random direction"):
        aj.check_grads(lambda z: np.conj(aj.stop_gradient(z)) * z, [np.array([0.5 + 0.3j])])
