"""Numbers as the report writes them: three digits and a unit."""

from __future__ import annotations

from collections.abc import Sequence


def seconds(value: float | None) -> str:
    """
    >>> seconds(0.00123456), seconds(12e-6), seconds(2.5)
    ('1.23 ms', '12 us', '2.5 s')
    """
    return _scaled(value, ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns")))


def size(value: float | None) -> str:
    """
    >>> size(1536), size(2.5e6), size(0)
    ('1.54 kB', '2.5 MB', '0 B')
    """
    return _scaled(value, ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B")))


def binary_size(value: int) -> str:
    """
    >>> binary_size(48 * 1024), binary_size(480 * 1024 ** 2)
    ('48 KiB', '480 MiB')
    """
    return _scaled(value, ((2 ** 30, "GiB"), (2 ** 20, "MiB"), (2 ** 10, "KiB"), (1, "B")))


def ratio(value: float | None) -> str:
    """
    >>> ratio(0.4567), ratio(12.34)
    ('0.46', '12')
    """
    return "" if value is None else f"{value:.2f}" if value < 9.995 else f"{value:.0f}"


def percent(value: float | None) -> str:
    return "" if value is None else f"{value:.0%}"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown, numbers to the right."""
    lines = ["| " + " | ".join(header) + " |", "|---" + "|---:" * (len(header) - 1) + "|"]
    return "\n".join([*lines, *("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows)])


def _scaled(value: float | None, units: Sequence[tuple[float, str]]) -> str:
    if value is None:
        return ""
    factor, unit = next((pair for pair in units if abs(value) >= 0.9995 * pair[0]), units[-1])
    scaled = value / factor
    return f"{scaled:.0f} {unit}" if abs(scaled) >= 99.95 else f"{scaled:.3g} {unit}"
