"""Random numbers as pure functions of a key: the same key gives the same numbers, everywhere and on any number of threads.

    key = adjit.random.key(0)
    noise_key, mask_key = adjit.random.split(key)
    noise = adjit.random.normal(noise_key, (3, 4))

A key is a uint64 scalar; element i of a draw is the Philox generator's word for counter i under that key (Salmon et al.,
Parallel random numbers: as easy as 1, 2, 3, 2011). Keys may be arguments of compiled functions: another key needs no new trace.
The random bits are the same compiled, interpreted and outside of any trace; `normal` rounds as the logarithm and the cosine of
the backend do.

Use a key once: two draws with one key are the same numbers. `split` and `fold_in` make new keys, which are independent of what
is drawn with the old one. New keys are 64 random bits: among 2**20 keys, two are equal with probability 2**-25.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from adjit.eager.generator import get_rng_state, manual_seed, set_rng_state
from adjit.ir.spelling import nearest
from adjit.tracer.random import bernoulli, fold_in, key, normal, permutation, randint, split, uniform

__all__ = ["bernoulli", "fold_in", "fork_rng", "get_rng_state", "key", "manual_seed", "normal", "permutation", "randint", "set_rng_state",
           "split", "uniform"]

_ELSEWHERE = {
    "PRNGKey": "key(seed)", "seed": "key(seed)", "default_rng": "key(seed)", "rand": "uniform(key, shape)", "random": "uniform(key, shape)",
    "randn": "normal(key, shape)", "standard_normal": "normal(key, shape)", "shuffle": "permutation(key, x)",
    "choice": "x[randint(key, shape, 0, len(x))]", "integers": "randint(key, shape, low, high)",
    "exponential": "-np.log(uniform(key, shape))",
}
"""Names in other libraries, and what there is instead."""


@contextmanager
def fork_rng(devices: Any = None, enabled: bool = True) -> Iterator[None]:
    """Put the state of the default generator back at the end of a `with` statement; `devices`, PyTorch's GPUs, are none here.

    >>> import adjit as aj
    >>> _ = aj.manual_seed(0)
    >>> with fork_rng():
    ...     first = aj.rand(2)
    >>> bool((aj.rand(2) == first).all())
    True
    """
    state = get_rng_state() if enabled else None
    try:
        yield
    finally:
        if state is not None:
            set_rng_state(state)


def __getattr__(name: str) -> Any:
    there = f"; adjit.random has {_ELSEWHERE[name]}" if name in _ELSEWHERE else nearest(name, __all__)
    raise AttributeError(f"module 'adjit.random' has no attribute {name!r}{there}", name=name, obj=None)


def __dir__() -> list[str]:
    return sorted(__all__)
