"""Type checkers know what users get: the programs in `user_types/` through pyright where it is installed; through mypy by `make types`.

They say with `assert_type` what a call gives, and with `type: ignore` what is an error: one that is none is an error too.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.project import PACKAGES, ROOT

PROGRAMS = sorted((ROOT / "tests" / "user_types").glob("*.py"))


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package as it looks once installed."""
    package = tmp_path_factory.mktemp("types") / "adjit"
    package.mkdir()
    for path in [*(ROOT / "api").iterdir(), *(ROOT / room for room in PACKAGES if room != "api")]:
        (package / path.name).symlink_to(path)
    return package.parent


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("pyright"), reason="pyright is not installed")
def test_pyright_knows_what_users_get(installed: Path) -> None:
    (installed / "pyrightconfig.json").write_text('{"extraPaths": ["."], "enableTypeIgnoreComments": true}')
    done = subprocess.run(["pyright", "--project", installed, "--pythonpath", sys.executable, *PROGRAMS], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
