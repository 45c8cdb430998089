"""`functional_call`, as PyTorch's older name for `adjit.func.functional_call`."""

from adjit.func import functional_call

__all__ = ["functional_call"]
