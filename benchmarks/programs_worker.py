"""One library in a process of its own that runs the programs of `programs.py`: commands as those of `worker.py`.

    {"do": "open", "problem": "garch", "sizes": {"size": 8}}    make the data, then time the first call: wall time and CPU time
    {"do": "read", "path": "readings.npz"}                      value and gradients for every data set
    {"do": "run", "steps": 100, "warm": 10}                     seconds of each call, data sets in turn
"""

from __future__ import annotations

import importlib.metadata
import json
import platform
import sys
import time
import warnings
from collections.abc import Callable
from itertools import cycle
from typing import Any

from worker import Answer, answers, failed, seconds_to_import

Call = Callable[..., Any]
Opener = Callable[[Any, Any], tuple[Call, Call, Callable[[], None]]]
"""Of a program and its data: what makes a data set the library's own, what computes value and gradients, and what waits until the library
prepares nothing more."""


def ready() -> None:
    """Of a library that prepares nothing beside calls."""


def as_it_is(arguments: Any) -> Any:
    return arguments


def with_adjit(program: Any, loss_of: Any) -> tuple[Call, Call, Callable[[], None]]:
    import numpy as np
    from support.compiler_threads import wait_for_compilers

    import adjit as aj
    return as_it_is, aj.compile(aj.value_and_grad(loss_of(program.function, np.sum), program.wrt)), wait_for_compilers


def with_jax(program: Any, loss_of: Any) -> tuple[Call, Call, Callable[[], None]]:
    import jax
    import jax.numpy as jnp
    import programs_in_jax
    jax.config.update("jax_enable_x64", True)
    function = programs_in_jax.value_and_gradient(program.name, loss_of(getattr(programs_in_jax, program.name), jnp.sum), program.wrt)

    def convert(arguments: Any) -> Any:
        return tuple(map(jnp.asarray, arguments))
    return convert, lambda *arguments: jax.block_until_ready(function(*arguments)), ready


def with_autograd(program: Any, loss_of: Any) -> tuple[Call, Call, Callable[[], None]]:
    """The program's own file, read once more with autograd's NumPy in place of NumPy."""
    import inspect

    import autograd
    import autograd.numpy as anp
    text = inspect.getsource(inspect.getmodule(program.function))
    text = text.replace("import numpy as np", "import autograd.numpy as np").replace("from numpy import", "from autograd.numpy import")
    module: dict[str, Any] = {"__name__": "programs_with_autograd"}
    exec(compile(text, "programs_with_autograd", "exec"), module)
    return as_it_is, autograd.value_and_grad(loss_of(module[program.name], anp.sum), program.wrt), ready


def with_numpy(program: Any, loss_of: Any) -> tuple[Call, Call, Callable[[], None]]:
    """The value alone."""
    import numpy as np
    loss = loss_of(program.function, np.sum)
    return as_it_is, lambda *arguments: (loss(*arguments), ()), ready


OPENERS: dict[str, Opener] = {"adjit": with_adjit, "jax": with_jax, "autograd": with_autograd, "numpy": with_numpy}


class CommandLoop:
    """The commands, on the program that was opened last."""

    def __init__(self, library: str):
        self.library = library

    def open(self, problem: str, sizes: dict[str, int]) -> dict[str, Any]:
        import programs
        self.program = programs.chosen()[problem]
        data = programs.data_sets(self.program, sizes["size"])
        convert, self.call, self.settle = OPENERS[self.library](self.program, programs.loss_of)
        self.data = [convert(arguments) for arguments in data]
        self.turn = cycle(self.data)
        begin, cpu = time.perf_counter(), time.process_time()
        self.call(*self.data[0])
        return {"first": time.perf_counter() - begin, "cpu": time.process_time() - cpu}

    def read(self, path: str) -> dict[str, Any]:
        import numpy as np
        found = [self.call(*arguments) for arguments in self.data]
        readings = {"value": np.array([float(value) for value, _ in found])}
        for place, gradients in enumerate(zip(*(gradients for _, gradients in found), strict=True)):
            readings[f"gradient {self.program.wrt[place]}"] = np.array([np.asarray(gradient, float) for gradient in gradients])
        np.savez(path, **readings)
        for arguments in self.data:         # once more: a program that was made for other data is used for these too
            self.call(*arguments)
        self.settle()
        return {}

    def run(self, steps: int, warm: int) -> dict[str, Any]:
        call, turn, clock = self.call, self.turn, time.perf_counter
        for _ in range(warm):
            call(*next(turn))
        seconds = []
        for _ in range(steps):
            arguments = next(turn)
            begin = clock()
            call(*arguments)
            seconds.append(clock() - begin)
        return {"seconds": seconds}


def serve(library: str, modules: list[str], answer: Answer) -> None:
    seconds = seconds_to_import(modules, answer)
    if seconds is None:
        return
    import numpy as np
    names = {"adjit": ("adjit", "llvmlite"), "jax": ("jax", "jaxlib")}.get(library, (library,))
    answer({"import": seconds, "versions": {"python": platform.python_version(), "numpy": np.__version__,
                                            **{name: importlib.metadata.version(name) for name in names}}})
    loop = CommandLoop(library)
    with np.errstate(all="ignore"), warnings.catch_warnings(action="ignore"):
        for line in sys.stdin:
            command = json.loads(line)
            try:
                answer(getattr(loop, command.pop("do"))(**command))
            except Exception as error:
                answer(failed(error))


if __name__ == "__main__":
    serve(sys.argv[1], sys.argv[2:], answers())
