"""Neural networks: `adjit.nn.functional`, the functions that networks and their losses are made of."""

from adjit.nn import functional

__all__ = ["functional"]
