"""Configuration of the site, for Sphinx. `make docs` copies the pages to a folder of their own first: docs/make_site.py."""

from __future__ import annotations

import inspect
import re
from typing import Any

import adjit

project = "adjit"
author = "the adjit developers"
project_copyright = "the adjit developers, Apache-2.0"
version = release = adjit.__version__

extensions = ["myst_parser", "numpydoc", "sphinx.ext.autodoc", "sphinx.ext.viewcode", "sphinx_gallery.gen_gallery"]
exclude_patterns = ["examples/**/*.ipynb", "**/README.txt"]

default_role = "literal"
autodoc_default_options = {"member-order": "bysource"}
autodoc_typehints = "none"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

myst_enable_extensions = ["deflist", "dollarmath"]
myst_heading_anchors = 4
myst_links_external_new_tab = False

sphinx_gallery_conf = {
    "examples_dirs": "gallery",
    "gallery_dirs": "examples",
    "filename_pattern": "/",
    "within_subsection_order": "FileNameSortKey",
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_memory": False,
    "write_computation_times": False,
    "abort_on_example_error": True,
}

html_theme = "pydata_sphinx_theme"
html_context = {"default_mode": "auto"}
html_title = "adjit"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_theme_options = {"show_prev_next": True, "navigation_with_keys": False, "show_toc_level": 2, "footer_start": ["copyright"],
                      "footer_end": [], "secondary_sidebar_items": ["page-toc"]}


def as_plain_text(app: Any, what: str, name: str, value: Any, options: Any, lines: list[str]) -> None:
    """Docstrings hold text, `code`, examples, and lists of names with what they mean after some spaces; no other markup: their stars and
    bars are what they look like."""
    made: list[str] = []
    in_example = in_list = False
    for line in lines:
        in_example = line.lstrip().startswith(">>>") or (in_example and bool(line.strip()))
        if in_example:
            made.append(line)
            continue
        named = re.match(r"(\w+(?:, \w+)*)  +(\S.*)", line)
        in_list = named is not None or (in_list and line.startswith("  "))
        if named is not None:
            made += [f"``{named[1]}``", f"   {_escaped(named[2])}"]
        else:
            made.append(f"   {_escaped(line.strip())}" if in_list else _escaped(line))
    lines[:] = made


def _escaped(text: str) -> str:
    parts = re.split(r"(`+[^`]+`+\w*|\*\*[^*]+\*\*)", text)
    return "".join(part if part.startswith("**") else re.sub(r"`+([^`]+)`+(\w*)", _code, part) if part.startswith("`")
                   else re.sub(r"([*|_])", r"\\\1", part) for part in parts)


def _code(match: re.Match[str]) -> str:
    return f"``{match[1]}``" + (f"\\ {match[2]}" if match[2] else "")


def signature_of_class(app: Any, what: str, name: str, value: Any, options: Any, signature: str | None,
                       returned: str | None) -> tuple[str | None, str | None] | None:
    """The arguments of `__init__`: modules have a `__new__`, which takes anything."""
    if what != "class" or value.__init__ is object.__init__ or not inspect.isfunction(value.__init__):
        return None
    _, *others = inspect.signature(value.__init__).parameters.values()
    plain = [parameter.replace(annotation=inspect.Parameter.empty) for parameter in others]
    return str(inspect.Signature(plain)), None


def setup(app: Any) -> None:
    app.connect("autodoc-process-signature", signature_of_class)
    app.connect("autodoc-process-docstring", as_plain_text, priority=1)      # before numpydoc, which writes markup of its own
