"""`adjit.sklearn.Estimator`: scikit-learn's own checks, weights and hyperparameters, grids in other processes, errors."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.project import ROOT
from support.sklearn_models import cross_entropy, line, squares, traces, zeros, zeros_of_classes

pytest.importorskip("sklearn")

from sklearn.base import clone
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import check_estimator

from adjit.sklearn import Estimator

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
Y = X @ [1.0, -2.0, 0.5] + 0.3 + 0.1 * RNG.normal(size=60)


@pytest.mark.parametrize("estimator", [
    Estimator(squares, zeros, line), Estimator(cross_entropy, zeros_of_classes, line, kind="classifier")], ids=lambda made: made.kind)
@pytest.mark.share(1)
def test_checks_of_scikit_learn(estimator: Estimator) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(estimator, on_fail=None)
    assert [result["check_name"] for result in results if result["status"] not in ("passed", "skipped")] == []
    assert len(results) > 50


def test_fits_are_those_of_scikit_learn() -> None:
    weights = RNG.uniform(0.5, 2.0, 60)
    found = Estimator(squares, zeros, line, tol=1e-14, hyper={"alpha": 0.1}).fit(X, Y, sample_weight=weights)
    ridge = Ridge(alpha=0.1 * weights.sum()).fit(X, Y, sample_weight=weights)
    np.testing.assert_allclose(found.params_["w"], ridge.coef_, rtol=1e-4)
    assert found.score(X, Y) == pytest.approx(ridge.score(X, Y), rel=1e-6)
    labels = np.array(["no", "maybe", "yes"])[np.digitize(Y, [-1.0, 1.0])]
    mine = Estimator(cross_entropy, zeros_of_classes, line, kind="classifier", tol=1e-14, hyper={"alpha": 0.01}).fit(X, labels)
    theirs = LogisticRegression(C=1 / (0.01 * 60 * 2), tol=1e-10, max_iter=1000).fit(X, labels)
    np.testing.assert_allclose(mine.predict_proba(X), theirs.predict_proba(X), atol=1e-4)
    np.testing.assert_array_equal(mine.predict(X), theirs.predict(X))


def test_hyperparameters_and_weights_compile_nothing() -> None:
    estimator = Estimator(squares, zeros, line).fit(X, Y)
    before = traces(squares)
    for alpha in (0.1, 1.0):
        estimator.set_params(alpha=alpha).fit(X, Y, sample_weight=RNG.integers(1, 3, 60))
        assert estimator.get_params()["alpha"] == alpha
    assert traces(squares) == before
    twin = pickle.loads(pickle.dumps(estimator))
    np.testing.assert_array_equal(twin.predict(X), estimator.predict(X))
    assert clone(estimator).get_params() == estimator.get_params()
    grid = GridSearchCV(Estimator(squares, zeros, line), {"alpha": [1e-6, 10.0]}, cv=3).fit(X, Y)
    assert grid.best_params_ == {"alpha": 1e-6}


SEARCH = """
import numpy as np
from sklearn.model_selection import GridSearchCV
from support.sklearn_models import line, score, squares, zeros
from adjit.sklearn import Estimator
X = np.random.default_rng(0).normal(size=(60, 3))
grid = GridSearchCV(Estimator(squares, zeros, line), {"alpha": [1e-6, 1e-3, 0.1, 1.0]}, cv=3, n_jobs=2, scoring=score, refit="r2")
found = grid.fit(X, X @ [1.0, -2.0, 0.5]).cv_results_
each = [found[f"split{number}_test_traces"] for number in range(3)]
print(int(np.max(each)), len(set(np.ravel([found[f"split{number}_test_process"] for number in range(3)]).tolist())))
"""


def test_a_grid_compiles_once_a_process_and_nothing_with_a_filled_cache(tmp_path: Path, exhaustive: bool) -> None:
    if not exhaustive:
        pytest.skip("four processes that import scikit-learn: with --exhaustive")
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "tests"), "ADJIT_CACHE_DIR": str(tmp_path / "cache")}

    def files() -> dict[str, int]:
        return {str(path): path.stat().st_size for path in (tmp_path / "cache").rglob("*") if path.is_file() and "lock" not in path.name}

    seen = []
    for _ in range(2):
        run = subprocess.run([sys.executable, "-c", SEARCH], env=environment, capture_output=True, text=True, cwd=tmp_path)
        assert run.returncode == 0, run.stderr
        most, processes = map(int, run.stdout.split())
        assert most == 1
        assert processes >= 1
        seen.append(files())
    assert seen[0]
    assert seen[1].keys() == seen[0].keys()


@pytest.mark.parametrize(("make", "error", "words"), [
    (lambda: Estimator(squares, zeros, line, hyper={"beta": 1.0}).fit(X, Y), TypeError, "'beta' is no hyperparameter of squares"),
    (lambda: Estimator(squares, zeros, line, kind="cluster").fit(X, Y), ValueError, "kind='cluster'"),
    (lambda: Estimator(squares, zeros).fit(X, Y).predict(X), ValueError, "need model="),
    (lambda: Estimator(squares, zeros).set_params(beta=1.0), ValueError, "Invalid parameter 'beta'"),
    (lambda: Estimator(lambda p, X, y: np.sum((X @ p - y) ** 2), np.zeros(3)).fit(X, Y, np.ones(60)), ValueError, "no sample_weight")])
def test_errors(make: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        make()
