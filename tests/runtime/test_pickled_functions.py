"""Compiled functions in other processes: found by name, or compiled anew where functions are written down."""

from __future__ import annotations

import copy
import functools
import gc
import pickle
import subprocess
import sys
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import adjit as aj
from adjit.runtime.pickled_functions import ATTRIBUTE, has_name, restore

MAIN = """
import multiprocessing, pickle, sys
import numpy as np
import adjit as aj

@aj.compile(backend="native", threads=1)
def double(x):
    return np.sin(x) * factor

def work(x):
    return double(x) + 1

def square(x):
    return x * x

@aj.grad
def twice(x):
    return x * x

factor = 2.0
if __name__ == "__main__":
    assert pickle.loads(pickle.dumps(double)) is double
    context = multiprocessing.get_context(sys.argv[1])
    with context.Pool(1) as pool:
        assert np.array_equal(pool.map(double, [np.ones(3)])[0], double(np.ones(3)))
        assert np.array_equal(pool.map(work, [np.ones(3)])[0], work(np.ones(3)))
        assert pool.map(aj.grad(square), [3.0]) == pool.map(twice, [3.0]) == [6.0]
        assert pool.map(aj.grad(square, argnums=(0,)), [3.0]) == [(6.0,)]
    print("all well")
"""


@aj.compile
def at_top_level(x):
    return x * 2.0


@pytest.mark.share(2)
@pytest.mark.skipif(sys.platform != "linux", reason="fork")
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_of_a_script_in_a_pool(method: str, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(MAIN)
    done = subprocess.run([sys.executable, str(script), method], capture_output=True, text=True, timeout=120)
    assert done.stdout == "all well\n", done.stderr


def test_by_name() -> None:
    assert has_name(at_top_level)
    assert pickle.loads(pickle.dumps(at_top_level)) is at_top_level


def plain(x):
    return x * 3.0


def test_of_a_function_that_keeps_its_name() -> None:
    again = pickle.loads(pickle.dumps(aj.compile(plain, threads=1)))
    assert again.fun is plain
    assert again.compile_options.threads == 1
    assert again(2.0) == 6.0


def shifted(x, y):
    return x * x + y


class Model:
    def __init__(self) -> None:
        self.w = 3.0

    def loss(self, x):
        return self.w * x * x

    @aj.grad
    def slope(self, x):
        return self.w * x * x


@aj.compile
@aj.value_and_grad(argnames="y")
def decorated(x, y):
    return x * y


@pytest.mark.parametrize(("make", "args"), [
    (aj.grad, (3.0, 1.0)), (functools.partial(aj.grad, argnums=1), (3.0, 1.0)), (functools.partial(aj.grad, argnames="x"), (3.0, 1.0)),
    (aj.value_and_grad, (3.0, 1.0)), (aj.hessian, (3.0, 1.0)), (aj.jacfwd, (3.0, 1.0)), (aj.jacrev, (3.0, 1.0)), (aj.jacobian, (3.0, 1.0)),
    (lambda f: aj.vmap(aj.grad(f), in_axes=(0, None)), (np.ones(2), 1.0)), (lambda f: aj.compile(aj.grad(f), threads=1), (3.0, 1.0)),
    (lambda f: aj.grad(aj.compile(f)), (3.0, 1.0)), (aj.checkpoint, (3.0, 1.0))])
def test_of_transforms(make: Any, args: tuple[Any, ...]) -> None:
    function = make(shifted)
    again = pickle.loads(pickle.dumps(function))
    assert repr(again(*args)) == repr(function(*args))
    assert copy.deepcopy([function])[0] is function


def test_of_transforms_of_methods() -> None:
    assert pickle.loads(pickle.dumps(aj.grad(Model().loss)))(2.0) == 12.0
    assert pickle.loads(pickle.dumps(Model().slope))(2.0) == 12.0
    assert pickle.loads(pickle.dumps(Model.slope)) is Model.slope
    assert pickle.loads(pickle.dumps(decorated)) is decorated


def test_functions_of_transforms_are_held_by_what_they_transform() -> None:
    def make() -> Any:
        function = lambda x: x * x * x      # noqa: E731
        assert aj.grad(aj.grad(function))(2.0) == 12.0
        assert aj.grad(aj.grad(function)) is aj.grad(aj.grad(function))
        return weakref.ref(function)

    reference = make()
    gc.collect()
    assert reference() is None


def test_without_a_name() -> None:
    local = aj.compile(lambda x: x + 1.0, threads=1)
    assert not has_name(local)
    assert copy.copy(local) is local
    assert copy.deepcopy([local])[0] is local
    with pytest.raises((pickle.PicklingError, AttributeError)):
        pickle.dumps(local)
    anew = getattr(local, ATTRIBUTE)
    assert restore(anew) is local       # whoever found it by name
    made = anew()
    assert made is not local
    assert (made.fun, made.compile_options) == (local.fun, local.compile_options)


def test_written_down(tmp_path: Path) -> None:
    cloudpickle = pytest.importorskip("cloudpickle")
    factor = 3.0
    local = aj.compile(lambda x: np.sin(x) * factor, backend="native", threads=1)
    wanted = local(np.ones(3))
    place = tmp_path / "function"
    place.write_bytes(cloudpickle.dumps((local, lambda x: local(x) + 1, aj.grad(lambda x: factor * x))))
    assert pickle.loads(cloudpickle.dumps(at_top_level)) is at_top_level
    done = subprocess.run([sys.executable, "-c", f"import pickle, numpy; f, g, h = pickle.load(open({str(place)!r}, 'rb')); "
                           "x = numpy.ones(3); print(f.compile_options.threads, f(x).tolist(), g(x).tolist(), h(1.0))"],
                          capture_output=True, text=True)
    assert done.stdout == f"1 {wanted.tolist()} {(wanted + 1).tolist()} 3.0\n", done.stderr
