"""Switches of cuDNN, which may be set and change nothing: there is no card, and results are deterministic.

>>> is_available(), version()
(False, None)
"""

enabled = True
deterministic = True
benchmark = False
benchmark_limit = 10
allow_tf32 = False


def is_available() -> bool:
    """Return False.

    >>> is_available()
    False
    """
    return False


def version() -> None:
    """Return None: there is no version.

    >>> version()
    """
