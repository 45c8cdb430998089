"""Builds the site: `make docs`, into `out/site`. The pages are those of `docs/` and of the project's top folder; the reference is made of
docstrings.

Pages link to each other as files, so that they read well without the site. They are copied to `build/site`, where links to what lies
outside of `docs/` lead to copies, and Sphinx makes the site from there. Warnings are errors.
"""

from __future__ import annotations

import inspect
import re
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
ROOT = DOCS.parent
SOURCE, SITE = ROOT / "build/site", ROOT / "out/site"

TOP = {"README.md": "readme.md", "ARCHITECTURE.md": "architecture.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md",
       "benchmarks/README.md": "benchmarks_readme.md"}
"""Pages outside of `docs/`, and their names in the site."""

SECTIONS = {
    "start": ("Start", ("Overview <readme>", "tutorials/*", "guide", "examples/index")),
    "howto": ("How to", ("howto/*",)),
    "topics": ("Topics", ("arrays", "control_flow", "vmap", "batch_sizes", "solvers", "ode", "modules", "autograd", "capturing",
                          "callables", "distributed", "export", "devices")),
    "explanation": ("Explanation", ("explanation/*", "derivatives", "footguns", "trust")),
    "coming_from": ("Coming from", ("coming_from/*",)),
    "reference": ("Reference", ("api/index", "numpy", "scipy", "torch", "ops", "benchmarks")),
    "development": ("Development", ("architecture", "internals/index", "Measurements <benchmarks_readme>", "contributing", "changelog")),
}
"""Pages of the sections, each of which has a page with a list of them."""

NAMESPACES = {
    "adjit": "Transforms, compilation, loops, tensors", "adjit.numpy": "NumPy's names", "adjit.random": "Random numbers",
    "adjit.special": "Special functions", "adjit.fft": "Fourier transforms", "adjit.linalg": "Linear algebra",
    "adjit.solve": "Solvers in programs", "adjit.ode": "Differential equations", "adjit.fit": "SciPy's optimizers on trees",
    "adjit.stats": "Bijections and densities", "adjit.tree": "Trees of parameters", "adjit.debug": "Debugging",
    "adjit.viz": "Pictures of graphs", "adjit.nn": "Modules", "adjit.nn.functional": "Functions of networks",
    "adjit.nn.init": "Initial values", "adjit.nn.utils": "Utilities of modules", "adjit.optim": "Optimisers",
    "adjit.optim.lr_scheduler": "Schedules", "adjit.autograd": "The dynamic graph", "adjit.func": "Transforms by PyTorch's names",
    "adjit.distributions": "Distributions by PyTorch's names", "adjit.utils.data": "Data sets and loaders", "adjit.onnx": "ONNX",
    "adjit.distributed": "Many processes", "adjit.cuda": "Graphics cards", "adjit.errors": "Errors",
}


def main() -> None:
    shutil.rmtree(SOURCE, ignore_errors=True)
    copy_pages()
    write_reference()
    SITE.mkdir(parents=True, exist_ok=True)
    done = subprocess.run([sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", "-d", str(ROOT / "build/doctrees"),
                           str(SOURCE), str(SITE)])
    if done.returncode == 0:
        print(f"the site is {SITE.relative_to(ROOT)}/index.html")
    sys.exit(done.returncode)


def copy_pages() -> None:
    """The pages with their pictures, the gallery's scripts, and the files that pages link to."""
    for page in sorted(DOCS.rglob("*")):
        relative = page.relative_to(DOCS)
        if page.is_file() and page.suffix not in (".json", ".toml", ".pyc") and not page.name.startswith("make_"):
            put(page, relative)
    for name, new in TOP.items():
        put(ROOT / name, Path(new))
    for name, (title, entries) in SECTIONS.items():
        there = [entry for entry in entries if entry.endswith(("/index", ">")) or list(SOURCE.glob(f"{entry}.md"))]
        (SOURCE / f"{name}.md").write_text(f"# {title}\n\n```{{toctree}}\n:maxdepth: 1\n:glob:\n\n" + "\n".join(there) + "\n```\n")


def put(file: Path, relative: Path) -> None:
    """Copy a file to a place in the site's source; in a page, links to files outside of `docs/` lead to their copies."""
    target = SOURCE / relative
    if relative.name == "README.md":
        target = target.with_name("index.md")
    target.parent.mkdir(parents=True, exist_ok=True)
    if file.suffix != ".md":
        shutil.copyfile(file, target)
        return

    def link(match: re.Match[str]) -> str:
        path, heading = match[1], match[2]
        linked = (file.parent / path).resolve()
        name = linked.relative_to(ROOT).as_posix()
        if name in TOP:
            new = Path(TOP[name])
        elif name == "docs/gallery":
            new = Path("examples/index")
        elif linked.parent == DOCS and linked.name in SECTIONS:
            new = Path(f"{linked.name}.md")
        elif linked.is_relative_to(DOCS):
            new = linked.relative_to(DOCS)
            new = new.with_name("index.md") if new.name == "README.md" else new
        else:       # a file of the project: a copy that can be downloaded, of a folder its first page or script
            chosen = linked if linked.is_file() else next(iter(sorted([*linked.glob("*.py"), *linked.glob("*.c")])))
            new = Path("files") / chosen.relative_to(ROOT)
            (SOURCE / new).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(chosen, SOURCE / new)
        return f"]({'../' * (len(relative.parts) - 1)}{new.as_posix()}{heading or ''})"

    text = file.read_text()
    text = re.sub(r"\]\((?![a-z]+://|#)([^)#\s]+)(#[^)]*)?\)", link, text)
    if relative == Path("internals/README.md"):
        text += "\n```{toctree}\n:hidden:\n:glob:\n\n*\n```\n"
    target.write_text(text)


def write_reference() -> None:
    """A page of the reference for each namespace: its names in a list, then their docstrings."""
    folder = SOURCE / "api"
    folder.mkdir(parents=True)
    rows = "\n".join(f"   {name}" for name in NAMESPACES)
    (folder / "index.rst").write_text("Every public name\n=================\n\nBy namespace. The functions of `adjit.scipy` are SciPy's "
                                      f"by name and meaning: :doc:`/scipy`.\n\n.. toctree::\n   :maxdepth: 1\n\n{rows}\n")
    seen: dict[str, str] = {}
    for name, title in NAMESPACES.items():
        module = import_module(name)
        heading = f"{name}: {title}"
        parts = [heading, "=" * len(heading), "", inspect.cleandoc(module.__doc__ or "").split("\n\n")[0], ""]
        for public in sorted(module.__all__, key=str.lower):
            if not public.startswith("_"):
                parts += entry(name, public, getattr(module, public), seen)
        (folder / f"{name}.rst").write_text("\n".join(parts) + "\n")


def entry(namespace: str, name: str, value: Any, seen: dict[str, str]) -> list[str]:
    """The directive for a public name; a line that leads to the first one, if the object has several."""
    full = f"{namespace}.{name}"
    if inspect.ismodule(value) or not getattr(value, "__module__", "adjit").startswith("adjit"):
        return []
    if not callable(value):
        return [f"``{full}``", f"   {type(value).__name__}: {value}", ""]
    home = f"{value.__module__}.{getattr(value, '__qualname__', name)}"
    if home in seen:
        return [f"``{full}``", f"   The same as :obj:`{seen[home]}`.", ""]
    seen[home] = full
    if inspect.isclass(value):
        own = [key for key, member in vars(value).items() if not key.startswith("_") and inspect.isfunction(member) and member.__doc__]
        return [f".. autoclass:: {full}", *([f"   :members: {', '.join(own)}"] if own else []), ""]
    return [f".. autofunction:: {full}", ""]


if __name__ == "__main__":
    main()
