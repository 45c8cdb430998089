"""Times the import of adjit and the first call of the `mlp` step in this new process; prints both as JSON.

Whether kernels are compiled or come from the disk cache is up to the folder in ADJIT_CACHE_DIR.
"""

from __future__ import annotations

import json
import time

begin = time.perf_counter()
import workloads  # noqa: E402

imported = time.perf_counter()
step = workloads.mlp().runner()
before = time.perf_counter()
step()
print(json.dumps({"import": imported - begin, "first call": time.perf_counter() - before}))
