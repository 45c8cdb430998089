"""Switches of CUDA, which may be set and change nothing: `matmul.allow_tf32 = True`.

>>> is_built()
False
"""

from types import SimpleNamespace

matmul = SimpleNamespace(allow_tf32=False, allow_fp16_reduced_precision_reduction=False, allow_bf16_reduced_precision_reduction=False)


def is_built() -> bool:
    """Return False.

    >>> is_built()
    False
    """
    return False
