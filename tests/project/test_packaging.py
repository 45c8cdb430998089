"""The wheel and the installs: one top-level package, every package in it, usable from anywhere."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
import zipfile
from email.parser import HeaderParser
from pathlib import Path

import pytest
from support.project import PACKAGES, PYPROJECT, ROOT, VERSION, modules, package_of


def run(*command: object, cwd: Path, **environment: str) -> str:
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, cwd=cwd, env={**os.environ, **environment})
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what git would hand out, so that building leaves nothing in the real one."""
    copy = tmp_path_factory.mktemp("checkout")
    listed = run("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", cwd=ROOT) if (ROOT / ".git").exists() else ""
    names = listed.split("\0") if listed else [str(path.relative_to(ROOT))
                                                 for package in PACKAGES for path in (ROOT / package).rglob("*")] + [
        "pyproject.toml", "README.md", "LICENSE"]
    for name in filter(None, names):
        source, target = ROOT / name, copy / name
        if source.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(source.read_bytes())
    return copy


@pytest.fixture(scope="module")
def wheel(checkout: Path) -> Path:
    run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "--no-index", "-w", "dist", ".", cwd=checkout)
    (built,) = (checkout / "dist").glob("adjit-*.whl")
    return built


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new environment that sees the libraries of this one, but not this install of adjit."""
    folder = tmp_path_factory.mktemp("environment") / "venv"
    run(sys.executable, "-m", "venv", "--without-pip", folder, cwd=folder.parent)
    (site,) = folder.glob("lib/python*/site-packages")
    libraries = Path(sys.modules["pytest"].__file__ or "").parent.parent
    for entry in libraries.iterdir():
        if "adjit" not in entry.name and entry.suffix != ".pth":
            (site / entry.name).symlink_to(entry)
    return folder / "bin" / "python"


def site_packages(python: Path) -> Path:
    return next((python.parent.parent / "lib").glob("python*/site-packages"))


def install(python: Path, *arguments: object, cwd: Path) -> set[str]:
    """Install with the pip of the tests into `python`'s environment; the names that were added to its site-packages."""
    before = {path.name for path in site_packages(python).iterdir()}
    run(python, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", "--no-index", "--no-compile", *arguments, cwd=cwd)
    return {path.name for path in site_packages(python).iterdir()} - before


def uninstall(python: Path, cwd: Path) -> None:
    run(python, "-m", "pip", "uninstall", "-q", "-y", "adjit", cwd=cwd)


STUBS = ("tensor_function_names.pyi", "argument_types.pyi", "numpy.pyi", "random.pyi", "special.pyi", "eager/tensor_methods.pyi",
         "linalg/__init__.pyi", "nn/functional/__init__.pyi")
USE = """
import adjit, pathlib, sys
import adjit.numpy, adjit.nn.functional, adjit.optim, adjit.random, adjit.errors
import adjit.ir.graph, adjit.tracer, adjit.passes, adjit.codegen, adjit.runtime
for package, name in ((adjit, "py.typed"), (adjit, "tensor_function_names.pyi"), (adjit.eager, "tensor_methods.pyi")):
    assert (pathlib.Path(package.__file__).parent / name).exists(), name
print(adjit.__version__)
"""


def test_wheel_holds_the_package_and_nothing_else(wheel: Path, checkout: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    assert {name.split("/")[0] for name in names} == {"adjit", f"adjit-{VERSION}.dist-info"}
    expected = {
        name.replace(".", "/") + ("/__init__.py" if path.name == "__init__.py" else ".py") for name, path in modules(checkout).items()}
    assert {name for name in names if name.startswith("adjit/")} == expected | {
        "adjit/py.typed", *(f"adjit/{stub}" for stub in STUBS),
        *(f"adjit/runtime/reports/page/{path.name}" for path in (ROOT / "runtime/reports/page").iterdir())}
    assert f"adjit-{VERSION}.dist-info/licenses/LICENSE" in names


def test_wheel_asks_for_four_libraries(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        metadata = HeaderParser().parsestr(archive.read(f"adjit-{VERSION}.dist-info/METADATA").decode())
    required = [text for text in metadata.get_all("Requires-Dist", []) if "extra ==" not in text]
    assert sorted(text.split(">")[0] for text in required) == ["llvmlite", "numba", "numpy", "optree"]
    assert metadata["License-Expression"] == "Apache-2.0"


def test_every_folder_with_code_is_a_listed_package() -> None:
    packages = {name for name, path in modules().items() if path.name == "__init__.py"}
    assert packages == set(PYPROJECT["tool"]["setuptools"]["packages"])
    assert all(name in packages for name in {name.rpartition(".")[0] for name in modules()} - {""})


@pytest.mark.share(3)
@pytest.mark.slow
@pytest.mark.parametrize("how", ["wheel", "editable", "editable strict"])
def test_installs(how: str, checkout: Path, wheel: Path, environment: Path, tmp_path: Path) -> None:
    """From the source is a wheel, too: pip builds one as the fixture does."""
    arguments = {
        "wheel": [wheel], "editable": ["-e", "."],
        "editable strict": ["-e", ".", "--config-settings", "editable_mode=strict"]}[how]
    added = install(environment, *arguments, cwd=checkout)
    try:
        assert {name for name in added if "adjit" not in name} == set()
        for folder in (tmp_path, checkout):
            assert run(environment, "-c", USE, cwd=folder).strip() == VERSION
            code = ("import importlib.util, sys; sys.path = [p for p in sys.path if p]; "
                    f"print(*(room for room in {sorted(set(PACKAGES))!r} if importlib.util.find_spec(room)))")
            assert run(environment, "-c", code, cwd=folder).strip() == ""
    finally:
        uninstall(environment, tmp_path)


def test_constraints_pin_every_requirement() -> None:
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
    assert all(line.count("==") == 1 for line in lines)
    pinned = {line.split("==")[0].lower().replace("_", "-") for line in lines}
    extras = [group for name, group in PYPROJECT["project"]["optional-dependencies"].items() if name != "test-torch"]
    wanted = {text.split(">")[0].split("[")[0] for group in extras for text in group} | {
        text.split(">")[0] for text in PYPROJECT["project"]["dependencies"]}
    assert wanted - {"adjit"} <= pinned


def test_pre_commit_runs_the_makefile() -> None:
    text = (ROOT / ".pre-commit-config.yaml").read_text()
    assert "entry: make lint" in text
    assert "entry: make types" in text
    makefile = (ROOT / "Makefile").read_text()
    assert "\nlint:" in makefile
    assert "\ntypes:" in makefile


def test_ci_runs_make_test() -> None:
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    assert script.read_text().rstrip().endswith("make test")


def test_rooms_of_the_table_are_the_rooms_on_disk() -> None:
    assert {package_of(name) for name in modules()} == set(PACKAGES)
    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-dir"].keys() == {
        "adjit" if package == "api" else f"adjit.{package}" for package in PACKAGES}
