"""Objects of the user's classes as arguments: their attributes are read as those of a closure's objects are, and keep what calls store."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import adjit as aj
from adjit.ir.errors import ExportError, NonDifferentiableError, UnsupportedError


class Model:
    def __init__(self, scale: float = 1.0):
        self.w, self.scale, self.steps, self.name, self.log = scale * np.ones(2), scale, 0, "model", list[Any]()

    def predict(self, x: Any) -> Any:
        return np.sum(self.w * x) * self.scale

    def __call__(self, x: Any) -> Model:        # which is returned all the same
        self.w = x * 2
        return self

    def fit(self, x: Any) -> Model:
        gradient = aj.grad(lambda w: np.sum((w * x) ** 2))(self.w)
        self.w = self.w - 0.1 * gradient
        self.scale *= 0.5
        self.steps += 1
        self.log.append(gradient[0])
        return self


X = np.array([0.3, -1.2])


def predict(model: Any, x: Any) -> Any:
    return np.sum(model.w * x) * model.scale


def test_attributes_are_read_and_written_as_python_does() -> None:
    """Also of an object that is passed twice, that a closure holds, too, and in lists and dicts; each object is a program of its own."""
    step = aj.compile(lambda model, x: {"model": model.fit(x), "loss": model.predict(x) * model.steps}, backend="interpret")
    model, expected = Model(), Model()
    for number in (1.0, 2.0, 3.0, 4.0):
        found, loss = step(model, number * X), expected.fit(number * X).predict(number * X) * expected.steps
        assert found["model"] is model
        np.testing.assert_allclose(found["loss"], loss, rtol=1e-14)
        np.testing.assert_allclose([*model.w, model.scale, model.steps, *model.log],
                                   [*expected.w, expected.scale, expected.steps, *expected.log], rtol=1e-14)
        assert model.name == "model"
    assert step.cache_info().traces == 1
    assert aj.compile(model.__call__, backend="interpret")(X) is model
    assert model.w.tolist() == (2 * X).tolist()
    compiled = aj.compile(predict, backend="interpret")
    for scale in (1.0, 2.0, 3.0):
        np.testing.assert_allclose(compiled(Model(scale), X), -0.9 * scale ** 2)
    model = Model()
    for scale in (1.0, 5.0):
        model.scale = scale
        np.testing.assert_allclose(compiled(model, X), -0.9 * scale)
    assert "model.scale changed from 1.0 to 5.0" in compiled.explain(model, X)

    def moved(one: Any, other: Any, x: Any) -> Any:
        one.w = one.w + x
        return other.w.sum() + model.w.sum()
    model = Model()
    np.testing.assert_allclose(aj.compile(moved, backend="interpret")(model, model, X), 2 * (2.0 - 0.9))
    many = aj.compile(lambda models, x: models["a"][0].predict(x) - models["b"].scale, backend="interpret")
    np.testing.assert_allclose(many({"a": [Model(2.0)], "b": SimpleNamespace(scale=3.0)}, X), -3.6 - 3.0)


def test_transforms_pass_objects_on() -> None:
    model = Model(2.0)
    for wrap in (lambda f: f, lambda f: aj.compile(f, backend="interpret")):
        np.testing.assert_allclose(wrap(aj.grad(predict, argnums=1))(model, X), [4.0, 4.0])
        np.testing.assert_allclose(wrap(aj.vmap(predict, in_axes=(None, 0)))(model, np.stack([X, 2 * X])), [-3.6, -7.2])
        np.testing.assert_allclose(wrap(aj.hessian(lambda m, x: predict(m, x) ** 2, argnums=1))(model, X), np.full((2, 2), 32.0))
    with pytest.raises(NonDifferentiableError, match="with respect to model, which is a Model"):
        aj.grad(predict)(model, X)
    with pytest.raises(UnsupportedError, match=r"returns a types.SimpleNamespace at result"):
        aj.compile(lambda x: SimpleNamespace(x=x))(X)
    with pytest.raises(ExportError, match="the result is a Model, which"):
        aj.compile(lambda m, x: m).export("never.adjit", model, X)
