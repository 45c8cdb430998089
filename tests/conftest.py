"""Options of the test suite."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers
from support.compiler_threads import wait_for_compilers
from support.each import Extent

FEW, SOME, MANY = 4, 10, 30
"""Cases of a test up to which all run in the gate, one in two, and one in three; above, one in five."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite the expected halves of golden files with what comes out now")
    parser.addoption("--exhaustive", action="store_true",
                     help="what takes minutes: all ops under valgrind, thousands of programs, functions at every float32")


def pytest_configure(config: pytest.Config) -> None:
    """The same examples every time, however slow the machine; others with `--exhaustive`. The disk cache is not the user's."""
    os.environ.setdefault("ADJIT_TRACEBACK", "full")       # a test that fails shows where
    os.environ.setdefault("ADJIT_CACHE_DIR", str(config.rootpath / ".pytest_cache" / "adjit"))
    settings.register_profile("adjit", derandomize=not config.getoption("--exhaustive"), deadline=None,
                              suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("adjit")
    # Hypothesis tries the constants of all local modules that happen to be loaded, after parsing each: other examples in each process
    providers._get_local_constants = lambda: providers._local_constants
    Extent.everything = bool(config.getoption("--exhaustive"))
    gc.disable()        # until the items are collected, which stay


def pytest_collection_finish() -> None:
    gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of the cases of a test marked `share(n)` one in n runs: with several parameters along the diagonal, so that each value of each has
    its turn. Of other tests with more than `FEW` cases some run, and of all cases by Numba every second. All run with `--exhaustive`, and
    where a test is named on the command line."""
    if config.getoption("--exhaustive") or any("::" in argument for argument in config.args):
        return
    left_out = {item for item in items if (mark := item.get_closest_marker("share")) and _turn(item) % mark.args[0]}
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        if hasattr(item, "callspec") and not item.get_closest_marker("share"):
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for of_one in cases.values():
        share = 1 + (len(of_one) > FEW) + (len(of_one) > SOME) + 2 * (len(of_one) > MANY)
        left_out.update(item for number, item in enumerate(of_one) if number % share)
    by_numba = [item for item in items if item not in left_out and _is_by_numba(item)]       # which compiles for seconds
    left_out.update(by_numba[1::2])
    if left_out:
        config.hook.pytest_deselected(items=list(left_out))
        items[:] = [item for item in items if item not in left_out]


def _is_by_numba(item: pytest.Item) -> bool:
    return hasattr(item, "callspec") and "numba" in [value for value in item.callspec.params.values() if isinstance(value, str)]


def _turn(item: pytest.Item) -> int:
    """The sum of the indices of its parameters' values; names that are given together count once."""
    indices: dict[str, int] = item.callspec.indices         # type: ignore[attr-defined]
    named = [mark.args[0] for mark in item.iter_markers("parametrize")]
    return sum(indices[(names.split(",")[0].strip() if isinstance(names, str) else names[0])] for names in named)


@pytest.fixture(autouse=True)
def nothing_under_way() -> Iterator[None]:
    """A test begins when what the tests before it have left to other threads is done, and leaves the number of threads and the device as
    they were: `set_num_threads` is a setting of the process, and examples choose the emulated device."""
    wait_for_compilers()
    before = {name: os.environ.get(name) for name in ("ADJIT_THREADS", "ADJIT_CUDA")}
    yield
    for name, value in before.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


@pytest.fixture(autouse=True, scope="module")
def older_objects_are_not_walked() -> None:
    """What there was before a file of tests the collector of cycles passes by: ten thousand items and all modules take it a second or so,
    each time that a test, or the code under test, collects."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def update_golden(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--update-golden"))


@pytest.fixture
def exhaustive(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--exhaustive"))
