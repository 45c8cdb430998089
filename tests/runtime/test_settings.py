"""Environment variables: typed, read when asked for, and refused with their name."""

from __future__ import annotations

from pathlib import Path

import pytest

import adjit as aj
from adjit.runtime import settings
from adjit.runtime.settings import SETTINGS, Setting


@pytest.mark.parametrize(("setting", "text", "value"), [
    (settings.VERIFY, "1", True), (settings.VERIFY, "off", False), (settings.VERIFY, " True ", True),
    (settings.THREADS, "3", 3), (settings.SIGNATURES, "1", 1), (settings.BACKEND, "interpret", "interpret"),
    (settings.CACHE_SIZE, "0", 0), (settings.CACHE_SIZE, "1000", 1000), (settings.CACHE_SIZE, "2k", 2048),
    (settings.CACHE_SIZE, "1G", 1 << 30),
    (settings.TARGET, "avx2", "avx2"), (settings.DUMP, "/some/where", Path("/some/where")), (settings.CACHE_DIR, "~/x", Path.home() / "x"),
])
def test_values(monkeypatch: pytest.MonkeyPatch, setting: Setting, text: str, value: object) -> None:
    monkeypatch.setenv(setting.variable, text)
    assert setting.get() == value


@pytest.mark.parametrize(("setting", "text", "message"), [
    (settings.VERIFY, "maybe", "environment variable ADJIT_VERIFY='maybe': expected 0 or 1"),
    (settings.THREADS, "0", "environment variable ADJIT_THREADS='0': expected an integer that is at least 1"),
    (settings.THREADS, "two", "environment variable ADJIT_THREADS='two': expected an integer that is at least 1"),
    (settings.TARGET, "neon", "environment variable ADJIT_TARGET='neon': expected one of auto, avx512, avx2, sse2"),
    (settings.CACHE_SIZE, "lots", "environment variable ADJIT_CACHE_SIZE='lots': expected a number of bytes such as 268435456, 256M or 1G"),
    (settings.CACHE_SIZE, "M", "environment variable ADJIT_CACHE_SIZE='M': expected a number of bytes such as 268435456, 256M or 1G"),
])
def test_errors_name_the_variable(monkeypatch: pytest.MonkeyPatch, setting: Setting, text: str, message: str) -> None:
    monkeypatch.setenv(setting.variable, text)
    with pytest.raises(ValueError) as info:
        setting.get()
    assert str(info.value) == message


@pytest.mark.parametrize(("variable", "text", "message"), [
    ("ADJIT_THREDS", "2", "environment variable ADJIT_THREDS is not a setting of adjit: ADJIT_THREADS? The settings are ADJIT_BACKEND, "),
    ("ADJIT_MATMUL", "x", "environment variable ADJIT_MATMUL='x': expected one of auto, avx512, avx2, sse2, numpy"),
    ("ADJIT_BACKEND", "foo", "environment variable ADJIT_BACKEND='foo': expected one of auto, native, numba, interpret"),
    ("ADJIT_THREADS", "-1", "environment variable ADJIT_THREADS='-1': expected an integer that is at least 1"),
])
def test_compile_refuses_what_it_does_not_know(monkeypatch: pytest.MonkeyPatch, variable: str, text: str, message: str) -> None:
    """Also where it is not asked for: a setting without effect looks like one with it."""
    monkeypatch.setenv(variable, text)
    with pytest.raises(ValueError) as info:
        aj.compile(lambda x: x, backend="interpret", threads=1)
    assert str(info.value).startswith(message)
    with pytest.raises(ValueError):
        aj.load("nothing.adjit")
    monkeypatch.setenv(variable, "")
    aj.compile(lambda x: x, backend="interpret")


def test_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    for setting in SETTINGS:
        monkeypatch.delenv(setting.variable, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/cache")
    assert settings.CACHE_DIR.get() == Path("/cache/adjit")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")       # the specification says: ignore it
    assert settings.CACHE_DIR.get() == Path.home() / ".cache" / "adjit"
    assert settings.DUMP.get() is None
    assert settings.VERIFY.get() is False
    assert settings.THREADS.get() == settings.usable_cores()
    monkeypatch.setenv("ADJIT_THREADS", "")
    assert settings.THREADS.get() == settings.usable_cores()


def test_the_table_is_complete() -> None:
    found = {value.variable for value in vars(settings).values() if isinstance(value, Setting)}
    assert found == {setting.variable for setting in SETTINGS}
    assert all(setting.variable.startswith(("ADJIT_", "NUMBA_")) and setting.doc for setting in SETTINGS)      # Numba's own switch too
