"""Whole programs in which the import of NumPy alone is changed, to `import adjit.numpy as np`: run as they are, and compiled."""

from __future__ import annotations

import importlib.util
import inspect
import sys
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from support.each import for_each
from support.numpy_comparison import check_values, compare, outcome, quietly
from support.numpy_programs import all_programs
from support.numpy_programs.program import NumPyProgram

import adjit as aj

FILES = sorted({program.function.__module__ for program in all_programs().values()})


def with_other_import(name: str) -> ModuleType:
    """The module of programs, run anew with adjit's namespace as np."""
    source = inspect.getsource(sys.modules[name])
    assert "import numpy as np\n" in source
    spec = importlib.util.spec_from_loader(f"{name}_dropped_in", None)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[module.__name__] = module
    changed = source.replace("import numpy as np\n", "import numpy\nimport adjit.numpy as np\n").replace("np.random.", "numpy.random.")
    exec(compile(changed, f"{name}.py", "exec"), module.__dict__)
    return module


def check(program: NumPyProgram, function: Any, compiled: bool) -> None:
    arguments = program.arguments(0)
    with quietly():
        wanted, _ = outcome(program.function, arguments)
        found, _ = outcome(function, arguments)
    compare(found, wanted, max(program.rounding, 1e-13), "run as it is: result")
    if compiled and not isinstance(wanted, Exception):
        try:
            aj.compile(program.function, backend="interpret")(*program.arguments(0))
        except (aj.errors.AdjitError, ValueError, TypeError):
            return      # refused with numpy, too
        check_values(function, [arguments], "interpret", max(program.rounding, 1e-12))


@pytest.mark.share(3)
@pytest.mark.parametrize("file", FILES, ids=lambda name: name.rpartition(".")[2])
def test_programs_run_with_the_other_import(file: str, exhaustive: bool) -> None:
    module = with_other_import(file)
    programs = [program for program in all_programs().values() if program.function.__module__ == file]
    for_each(((program.name, (program, getattr(module, program.function.__name__), exhaustive or number % 12 == 3))
              for number, program in enumerate(programs)), check)


def test_what_has_no_rule_is_numpys() -> None:
    for name in ("float16", "complex128", "load", "testing", "iinfo", "finfo", "errstate", "ndindex", "mgrid", "newaxis", "tau"
                 if hasattr(np, "tau") else "pi", "vectorize", "busday_count", "set_printoptions", "c_", "s_"):
        assert getattr(aj.numpy, name) is getattr(np, name)
    array = aj.numpy.zeros((2, 3), order="F")
    assert type(array) is np.ndarray
    assert array.flags.f_contiguous
    assert aj.numpy.array([1, "a"]).dtype.kind == "U"
    with pytest.raises(AttributeError, match=r"adjit\.random\.normal"):
        _ = aj.numpy.random
    with pytest.raises(ImportError, match=r"adjit\.random\.normal"):
        from adjit.numpy import random  # noqa: F401
