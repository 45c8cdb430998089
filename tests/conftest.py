"""Options of the test suite."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite the expected halves of golden files with what comes out now")
    parser.addoption("--exhaustive", action="store_true",
                     help="what takes minutes: all ops under valgrind, thousands of programs, functions at every float32")


@pytest.fixture
def update_golden(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--update-golden"))


@pytest.fixture
def exhaustive(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--exhaustive"))
