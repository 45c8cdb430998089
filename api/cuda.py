"""Graphics cards: there are none. Programs that ask `adjit.cuda.is_available()` go on with the CPU.

>>> import adjit as aj
>>> device = aj.device("cuda" if aj.cuda.is_available() else "cpu")
>>> aj.zeros(2, device=device).device
device(type='cpu')
"""

from importlib import import_module
from typing import Any

__all__ = ["device_count", "is_available", "manual_seed", "manual_seed_all"]


def is_available() -> bool:
    """Return False: programs run on the CPU.

    >>> is_available()
    False
    """
    return False


def device_count() -> int:
    """Return the number of cards, 0.

    >>> device_count()
    0
    """
    return 0


def manual_seed(seed: int) -> None:
    """Seed the generators of the cards, of which there are none: `adjit.manual_seed` seeds the one of the CPU.

    >>> manual_seed(0)
    """


manual_seed_all = manual_seed


__path__: list[str] = []        # for `import adjit.cuda.amp`


def __getattr__(name: str) -> Any:
    if name == "amp":
        return import_module("adjit.cuda.amp")
    raise AttributeError(f"module 'adjit.cuda' has no attribute {name!r}: there is no card; call what is for cards only after "
                         "`if adjit.cuda.is_available():`")
