"""What is imported when it is first used: all of it is found, and nothing else comes with it."""

from __future__ import annotations

import ast
import inspect
import os
import pickle
import subprocess
import sys

from adjit.nn import functional


def test_every_function_is_found_where_it_is_said_to_be() -> None:
    for name in functional.__all__:
        function = getattr(functional, name)
        assert function.__name__ == name
        assert pickle.loads(pickle.dumps(function)) is function
    assert set(functional.__all__) <= set(dir(functional))
    assert not hasattr(functional, "linear_")


def test_type_checkers_see_the_functions_in_the_same_modules() -> None:
    imported = {name.name: node.module for node in ast.walk(ast.parse(inspect.getsource(functional)))
                if isinstance(node, ast.ImportFrom) for name in node.names}
    for name in functional.__all__:
        assert getattr(functional, name).__module__ == imported[name]


def test_one_function_does_not_import_the_others() -> None:
    script = """
import sys
import numpy as np, adjit as aj
aj.compile(lambda x: aj.nn.functional.gelu(x, approximate="tanh"))(np.ones(30, np.float32))
print(*(name for name in ("adjit.nn.functional.losses", "adjit.nn.linear", "fractions", "decimal") if name in sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True,
                          env={**os.environ, "ADJIT_CACHE_SIZE": "0"})
    assert done.stdout.split() == []
