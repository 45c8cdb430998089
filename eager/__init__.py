"""Eager tensors: every operation runs at once and is recorded, so that its derivative can be taken."""

from adjit.eager import autograd_methods, closures, conversions, methods

__all__ = ["autograd_methods", "closures", "conversions", "methods"]
