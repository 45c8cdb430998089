"""Compiled functions in workers of joblib, Dask and Ray: the same bits, one compilation, no more threads than a worker's cores."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.worker_fits import fit, fit_and_tell

SEEDS = range(6)


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers find no program that was compiled before."""
    monkeypatch.setenv("ADJIT_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.delenv("ADJIT_THREADS", raising=False)


def check(told: Sequence[tuple[np.ndarray, int, bool, int, str]], workers: int) -> None:
    for seed, (w, *_) in zip(SEEDS, told, strict=True):
        assert np.array_equal(w, fit(seed)), f"other bits in a worker for seed {seed}"
    processes = {process for _, process, *_ in told}
    assert os.getpid() not in processes
    assert len(processes) <= workers
    assert len({process for _, process, compiled, *_ in told if compiled}) == 1, "one worker compiles, the others read the disk cache"
    assert all(threads <= int(openmp) for *_, threads, openmp in told if openmp)


def test_joblib(empty_cache: None) -> None:
    joblib = pytest.importorskip("joblib")
    check(joblib.Parallel(n_jobs=2, backend="loky")(joblib.delayed(fit_and_tell)(seed) for seed in SEEDS), 2)


def test_threads_of_joblib() -> None:
    joblib = pytest.importorskip("joblib")
    found = joblib.Parallel(n_jobs=2, backend="threading")(joblib.delayed(fit)(seed) for seed in SEEDS)
    assert all(np.array_equal(w, fit(seed)) for seed, w in zip(SEEDS, found, strict=True))


def test_dask(empty_cache: None) -> None:
    distributed = pytest.importorskip("dask.distributed", reason="Dask is not installed")
    with distributed.LocalCluster(2, threads_per_worker=1, dashboard_address=None) as cluster, distributed.Client(cluster) as client:
        check(client.gather(client.map(fit_and_tell, SEEDS, pure=False)), 2)


def test_ray(empty_cache: None) -> None:
    ray = pytest.importorskip("ray", reason="Ray is not installed")
    variables = {name: os.environ[name] for name in ("ADJIT_CACHE_DIR", "PYTHONPATH")}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ray.init(num_cpus=2, include_dashboard=False, logging_level="ERROR", log_to_driver=False, object_store_memory=100_000_000,
                 runtime_env={"env_vars": variables})
        try:
            remote: Callable[..., Any] = ray.remote(fit_and_tell).remote
            check(ray.get([remote(seed) for seed in SEEDS]), 2)
        finally:
            ray.shutdown()
