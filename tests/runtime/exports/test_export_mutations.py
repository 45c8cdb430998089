"""Manifests of exported programs that lie: whatever one field says, the file is refused, or the program gives what it gave.

In processes of their own, which would crash where code were given less memory than it writes.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import adjit as aj
from adjit.runtime.native.code import native_is_supported

pytestmark = pytest.mark.skipif(not native_is_supported(), reason="native programs are for Linux on x86-64")

CHILD = """
import copy, faulthandler, hashlib, io, json, os, re, sys, zipfile
import numpy as np
import adjit as aj
from adjit.errors import ExportError
from adjit.runtime.exports.archive import description

faulthandler.enable()
path, folder, every, consistent = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4] == "consistent"
with zipfile.ZipFile(path) as archive:
    parts = {name: archive.read(name) for name in archive.namelist()}
good = json.loads(parts.pop("manifest.json"))
for way in good["ways"]:
    way["artifact"] = json.loads(way["artifact"])
DEEP = "@deep"
NASTY = [None, True, False, -1, 0, 1, 2, 7, 1 << 31, 1 << 63, 1 << 70, 0.5, float("nan"), float("inf"),
         "", "x", "66", "f32", "i8", "zz", "donated", "updated", "state", "constant", "argument", "1" * 5000,
         [], [0], [1], [3, 3], [-1], [1 << 40, 1 << 40], [None], ["x"], [[]], {}, {"leaf": 0}, {"leaf": 1}, {"leaf": -1},
         {"constant": 1}, {"constant": []}, {"tuple": []}, {"dict": [["x", {"leaf": 0}]]}, {"fields": ["a b", ["class"], [0]]}, DEEP]

def places(value, path=()):
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from places(item, (*path, key))

def changed(path, new):
    made = copy.deepcopy(good)
    owner = made
    for key in path[:-1]:
        owner = owner[key]
    if new is DROP:
        del owner[path[-1]]
    else:
        owner[path[-1]] = new
    return made

DROP = object()
x = np.linspace(-1, 1, 6).reshape(2, 3)
wanted = aj.load(path)(x, {"s": 2.0})
refused = unharmed = 0
number = 0
file = os.path.join(folder, "changed.adjit")
for path in places(good):
    if not path or path[0] in ("digests", "format"):
        continue
    for new in (*NASTY, DROP):
        number += 1
        if number % every:
            continue
        made = changed(path, new)
        for way in made["ways"] if isinstance(made.get("ways"), list) else ():
            if isinstance(way, dict) and "artifact" in way:
                way["artifact"] = json.dumps(way["artifact"])
        now = dict(parts)
        if consistent:
            digest = description({k: v for k, v in made.items()}, now).encode()
            for name in now:
                if name.startswith("code/"):
                    now[name] = re.sub(rb"[0-9a-f]{64}", digest, now[name])
            made["digests"] = {name: hashlib.sha256(part).hexdigest() for name, part in now.items()}
        with zipfile.ZipFile(file, "w") as archive:
            text = json.dumps(made)
            for marker in (json.dumps(DEEP), json.dumps(json.dumps(DEEP))[1:-1]):
                text = text.replace(marker, "[" * 100_000 + "]" * 100_000)
            archive.writestr("manifest.json", text)
            for name, part in now.items():
                archive.writestr(name, part)
        print(path, repr(new)[:60], file=sys.stderr)
        try:
            loaded = aj.load(file)
        except ExportError:
            refused += 1
            continue
        try:
            for _ in range(3):
                assert np.array_equal(loaded(x, {"s": 2.0})["y"], wanted["y"])
        except Exception as error:      # it is another program, whose arguments and results have other names and places
            assert consistent, (path, new, error)
        unharmed += 1
print(number, refused, unharmed)
"""


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    weight = np.linspace(0, 1, 9).reshape(3, 3)
    path = tmp_path_factory.mktemp("mutations") / "good.adjit"

    @aj.compile
    def program(x, more):
        return {"y": (np.tanh(x) @ weight + more["s"]).cumsum(axis=0), "at": x[0].argmax(), "k": 3}

    program.export(path, np.zeros((2, 3)), {"s": 1.0}, levels="x86-64-v3")
    return path


def run(good: Path, folder: Path, every: int, kind: str, **environment: str) -> list[int]:
    done = subprocess.run([sys.executable, "-c", CHILD, str(good), str(folder), str(every), kind], capture_output=True, text=True,
                          env={**os.environ, **environment}, timeout=1800, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return list(map(int, done.stdout.split()))


def test_code_refuses_all_but_its_own_description(good: Path, tmp_path: Path, exhaustive: bool) -> None:
    number, refused, unharmed = run(good, tmp_path, 1 if exhaustive else 6, "as it is")
    assert number > 1000
    assert refused > 100 * unharmed     # a field that is what it was


def test_programs_compiled_from_a_graph_fit_what_is_said_of_them(good: Path, tmp_path: Path, exhaustive: bool) -> None:
    """Where the digest in the code was changed along, and the code is not used: then the graph is compiled."""
    number, refused, unharmed = run(good, tmp_path, 1 if exhaustive else 14, "consistent", ADJIT_TARGET="sse2", ADJIT_CACHE_SIZE="0")
    assert number > 1000
    assert refused > 3 * unharmed
