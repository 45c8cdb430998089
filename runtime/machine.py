"""What passes are told of the processor."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

OWN_CACHE = Path("/sys/devices/system/cpu/cpu0/cache/index2/size")
USUAL_BYTES, MOST_BYTES = 1 << 20, 1 << 21


@cache
def own_cache_bytes() -> int:
    """The size of the second-level cache, which each core has of its own; a usual one where the system does not say. At most `MOST_BYTES`:
    what a panel computes in lies on the stack."""
    try:
        size = re.fullmatch(r"(\d+)([KM])", OWN_CACHE.read_text().strip())
    except OSError:
        size = None
    return USUAL_BYTES if size is None else min(int(size[1]) << {"K": 10, "M": 20}[size[2]], MOST_BYTES)
