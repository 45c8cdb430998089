"""A backend of PyTorch that is not there."""


def is_available() -> bool:
    """Return False.

    >>> is_available()
    False
    """
    return False


is_built = is_available
