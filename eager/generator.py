"""Default generator of random numbers: a key and a counter in tensors, so that a compiled step advances it as an eager one does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from typing import Any

import numpy as np

from adjit.eager.apply import apply
from adjit.eager.device import CPU, card, card_number
from adjit.eager.in_place import apply_in_place
from adjit.eager.modes import no_grad
from adjit.eager.tensor import Tensor, as_tensor, own_tensor
from adjit.ir import ops
from adjit.ir.errors import StateError
from adjit.tracer.array import TracedArray, wrap
from adjit.tracer.scope import is_tracing
from adjit.tracer.user_location import find_user_location

_MASK = (1 << 64) - 1
_BLOCK = 256
"""Keys that are computed together."""

_FIRST = np.uint64(1 << 63)     # first counter of keys: apart from the counters of numbers drawn with a key


class Generator:
    """Generator of random numbers for `generator=` of functions that draw, and of distinct keys for `adjit.random`. Keys are made on
    the CPU, whatever the device, "cpu" or "cuda": the same seed gives the same numbers on both.

    >>> generator = Generator().manual_seed(0)
    >>> bool(generator.next_key() == generator.next_key())
    False
    """

    device = CPU

    def __init__(self, device: Any = None, seed: int = 0):
        number = card_number(device)
        if number is not None:
            self.device = card(number)
        self.key: Tensor = own_tensor(np.array(seed & _MASK, np.uint64))
        self.counter: Tensor = own_tensor(np.array(0, np.uint64))

    def manual_seed(self, seed: int) -> Generator:
        """Restart from an integer seed (modulo 2**64); returns the generator."""
        with no_grad():
            apply_in_place(_set, self.key, (np.uint64(int(seed) & _MASK),))
            apply_in_place(_set, self.counter, (np.uint64(0),))
        return self

    def initial_seed(self) -> int:
        """Return the seed, modulo 2**64."""
        return int(self.key)

    def next_key(self) -> Any:
        """Make a new key: a uint64 array of no dimensions, or a traced one while a function is captured."""
        if not is_tracing():
            counter = self.counter.array
            count = counter.item()
            word = _words(self.key.array.item(), count // _BLOCK)[count % _BLOCK]
            counter[...] = (count + 1) & _MASK
            self.counter._writes[0] += 1
            return np.asarray(word)
        with no_grad():
            key = apply(_word, (self.counter, self.key))
            apply_in_place(np.add, self.counter, (np.uint64(1),))
        return key.array

    def get_state(self) -> Tensor:
        """Return the state, two uint64 numbers, from which `set_state` continues."""
        with no_grad():
            state: Tensor = apply(np.stack, ([self.key, self.counter],))
        return state

    def set_state(self, state: Any) -> None:
        """Continue from a state of `get_state`; raises `StateError` for anything else."""
        new = as_tensor(state)
        if new.shape != (2,) or new.dtype != np.uint64:
            raise StateError(f"the state of a generator is two uint64 numbers, got the shape {new.shape} and the dtype {new.dtype}",
                             find_user_location())
        with no_grad():
            apply_in_place(_set, self.key, (new[0],))
            apply_in_place(_set, self.counter, (new[1],))


@lru_cache(maxsize=16)
def _words(key: int, block: int) -> np.ndarray:
    """The words of `_word` for a block of counters: one after another they take ten times as long."""
    counters = np.arange(_BLOCK, dtype=np.uint64) + np.uint64(block * _BLOCK) + _FIRST
    words: np.ndarray = ops.philox.evaluate(counters, np.broadcast_to(np.uint64(key), counters.shape))
    return words


def _set(target: TracedArray, value: TracedArray) -> TracedArray:
    return value


def _word(counter: TracedArray, key: TracedArray) -> TracedArray:
    return wrap(ops.philox((counter + _FIRST).value, key.value), scalar=False)


default_generator = Generator()


_source: ContextVar[Callable[[], Any] | None] = ContextVar("key_source", default=None)


def next_key(generator: Generator | None = None) -> Any:
    """Make a new key with this generator or the default one, see `Generator.next_key`; or with the function of `keys_from`."""
    if generator is not None:
        return generator.next_key()
    source = _source.get()
    return default_generator.next_key() if source is None else source()


@contextmanager
def keys_from(source: Callable[[], Any]) -> Iterator[None]:
    """Context in which keys come from `source`, not from the default generator."""
    token = _source.set(source)
    try:
        yield
    finally:
        _source.reset(token)


def manual_seed(seed: int) -> Generator:
    """Restart the default generator: from here on dropout, initialisations and the like give the same numbers again.

    >>> manual_seed(1) is default_generator
    True
    """
    return default_generator.manual_seed(seed)


def get_rng_state() -> Tensor:
    """Return the state of the default generator, two uint64 numbers: saved in a checkpoint, it makes later draws the same.

    >>> state = get_rng_state()
    >>> first = next_key()
    >>> set_rng_state(state)
    >>> bool(next_key() == first)
    True
    """
    return default_generator.get_state()


def set_rng_state(state: Any) -> None:
    """Set the default generator to a state of `get_rng_state`; raises `StateError` for anything else.

    >>> set_rng_state(get_rng_state())
    """
    default_generator.set_state(state)
