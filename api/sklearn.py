"""Models of one's own as scikit-learn's estimators: a loss and a prediction in NumPy, fitted with exact gradients.

>>> import numpy as np
>>> from adjit.sklearn import Estimator
>>> def loss(params, X, y, alpha=0.0):
...     return np.mean((X @ params["w"] + params["b"] - y) ** 2) + alpha * np.sum(params["w"] ** 2)
>>> def model(params, X):
...     return X @ params["w"] + params["b"]
>>> X = np.arange(12.0).reshape(6, 2) ** 0.5
>>> ridge = Estimator(loss, lambda X, y: {"w": np.zeros(X.shape[1]), "b": 0.0}, model, hyper={"alpha": 1e-6})
>>> round(ridge.fit(X, X @ [1.0, -2.0] + 0.5).score(X, X @ [1.0, -2.0] + 0.5), 3)
1.0
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils import ClassifierTags, RegressorTags, get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, column_or_1d, validate_data

from adjit import fit
from adjit.runtime.caches.transform_cache import kept
from adjit.runtime.compile_function import compile

__all__ = ["Estimator"]

KINDS = ("regressor", "classifier")
WEIGHTS = "sample_weight"


class Estimator(BaseEstimator):  # type: ignore[misc]
    """An estimator of scikit-learn's that minimizes `loss(params, X, y, ...)`, a number, over a tree of parameters, by SciPy's `method`.

    `init` is the tree of parameters to start from, or a function `init(X, y)` of it. `model(params, X)` returns the predictions; for
    `kind="classifier"` scores: one for each class (softmax), or one for two classes (logistic), and `y` of the loss is the number of the
    class.

    Further arguments of `loss` are hyperparameters, numbers: `hyper` has values for those that are not their defaults, and
    `set_params(alpha=0.1)` and grids over `alpha` know their names. `sample_weight`, if it is among them, gets the weights of `fit`, or
    ones. Data, weights and hyperparameters are arguments of one program for each shape of the data: bootstrap samples, grids, and folds of
    one size compile nothing. `tol` and `max_iter` are those of the method.

    After `fit`: `params_`, `loss_`, `n_iter_`, `success_`, `n_features_in_`, and `classes_` of a classifier. With functions that can be
    pickled, those of modules, it can be sent to other processes (`n_jobs`).

    `fit` raises `TypeError` for hyperparameters that `loss` does not take, `ValueError` for other kinds, and scikit-learn's errors for
    data.
    """

    def __init__(self, loss: Callable[..., Any], init: Any, model: Callable[..., Any] | None = None, *, hyper: Any = None,
                 kind: str = "regressor", method: str = "L-BFGS-B", tol: float | None = None, max_iter: int | None = None) -> None:
        self.loss, self.init, self.model, self.hyper = loss, init, model, hyper
        self.kind, self.method, self.tol, self.max_iter = kind, method, tol, max_iter

    # -- parameters

    def _arguments(self) -> dict[str, Any]:
        """Arguments of the loss behind the parameters and the data, with their values."""
        if not callable(self.loss):
            return {}
        further = list(inspect.signature(self.loss).parameters.values())[3:]
        return {each.name: self._given().get(each.name, each.default) for each in further}

    def _given(self) -> Mapping[str, Any]:
        return self.hyper if isinstance(self.hyper, Mapping) else {}

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters of the constructor, and the hyperparameters by name."""
        found: dict[str, Any] = super().get_params(deep)
        if deep:
            found.update({name: value for name, value in self._arguments().items() if name != WEIGHTS and name not in found})
        return found

    def set_params(self, **params: Any) -> Self:
        """Set parameters of the constructor, and hyperparameters by name."""
        own = super().get_params(deep=False)
        super().set_params(**{name: value for name, value in params.items() if name in own})
        further = {name: value for name, value in params.items() if name not in own}
        known = self.get_params()
        for name in further:
            if name not in known:
                raise ValueError(f"Invalid parameter {name!r} for estimator {self}. Valid parameters are: {list(known)!r}.")
        if further:
            self.hyper = {**self._given(), **further}
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.estimator_type = self.kind
        tags.target_tags.required = True
        if self.kind == "classifier":
            tags.classifier_tags = ClassifierTags()
        else:
            tags.regressor_tags = RegressorTags()
        return tags

    # -- fitting

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Minimize the loss of data. Weights need a loss with the argument `sample_weight`."""
        if self.kind not in KINDS:
            raise ValueError(f"Estimator: kind={self.kind!r}, expected one of {', '.join(map(repr, KINDS))}")
        is_classifier = self.kind == "classifier"
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=not is_classifier, multi_output=not is_classifier)
        if is_classifier:
            check_classification_targets(y)
            self.classes_, y = np.unique(y, return_inverse=True)
        else:
            y = (column_or_1d(y, warn=True) if y.ndim == 2 and y.shape[1] == 1 else y).astype(np.float64, copy=False)
        names = self._arguments()
        for name in self._given():
            if name not in names:
                raise TypeError(f"Estimator: {name!r} is no hyperparameter of {_name(self.loss)}, which has {', '.join(names) or 'none'}")
        if sample_weight is not None and WEIGHTS not in names:
            raise ValueError(f"Estimator: {_name(self.loss)} takes no {WEIGHTS}")
        weights = _check_sample_weight(sample_weight, X)
        given = [weights if name == WEIGHTS else np.asarray(value, np.float64) for name, value in names.items()]
        start = self.init(X, y) if callable(self.init) else self.init
        options = {} if self.max_iter is None else {"options": {"maxiter": self.max_iter}}
        found = fit.minimize(self.loss, start, (X, y, *given), method=self.method, tol=self.tol, hess="auto", **options)
        self.params_, self.loss_, self.success_ = found.params, float(found.fun), bool(found.success)
        self.n_iter_ = max(int(found.get("nit", 1)), 1)
        return self

    # -- prediction

    def _predicted(self, X: Any) -> np.ndarray:
        check_is_fitted(self, "params_")
        model = self.model
        if model is None:
            raise ValueError("Estimator: predictions need model=, a function of the parameters and X")
        X = validate_data(self, X, dtype=np.float64, reset=False)
        program = kept(model, ("sklearn.predict",), lambda: compile(model))
        return np.asarray(program(self.params_, X))

    def predict(self, X: Any) -> np.ndarray:
        """The predictions; of a classifier, the classes of the largest scores."""
        found = self._predicted(X)
        if self.kind != "classifier":
            return found
        return self.classes_[np.argmax(found, axis=1) if found.ndim == 2 else (found > 0).astype(np.intp)]     # type: ignore[no-any-return]

    @available_if(lambda self: self.kind == "classifier")
    def decision_function(self, X: Any) -> np.ndarray:
        """The scores: one for each class, or of two classes that of the second."""
        found = self._predicted(X)
        return found[:, 1] - found[:, 0] if found.ndim == 2 and found.shape[1] == 2 else found

    @available_if(lambda self: self.kind == "classifier")
    def predict_proba(self, X: Any) -> np.ndarray:
        """The probability of each class: softmax of the scores, or the logistic function of one score."""
        found = self._predicted(X)
        scores = np.stack([np.zeros(len(found)), found], axis=1) if found.ndim == 1 else found
        weights = np.exp(scores - np.max(scores, axis=1, keepdims=True))
        return weights / np.sum(weights, axis=1, keepdims=True)      # type: ignore[no-any-return]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The coefficient of determination, or the accuracy of a classifier."""
        measure = accuracy_score if get_tags(self).estimator_type == "classifier" else r2_score
        return float(measure(y, self.predict(X), sample_weight=sample_weight))


def _name(fun: Any) -> str:
    return getattr(fun, "__name__", type(fun).__name__)


def __dir__() -> list[str]:
    return sorted(__all__)
