"""Resident memory of this process, now and at its highest, as Linux tells it."""

from __future__ import annotations

from pathlib import Path


def resident() -> int:
    """Bytes in memory now."""
    return _status("VmRSS")


def peak() -> int:
    """The most bytes in memory since the start of the process or the last `reset_peak`."""
    return _status("VmHWM")


def reset_peak() -> bool:
    """Let `peak` begin again at what is resident now; False where the system does not let us."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return False
    return True


def _status(name: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        key, _, value = line.partition(":")
        if key == name:
            return int(value.split()[0]) * 1024
    raise OSError(f"/proc/self/status does not tell {name}")
