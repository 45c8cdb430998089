"""Eager tensors: every operation runs at once and is remembered, so that derivatives can be taken of whatever was run."""

from adjit.eager import autograd_methods, closures, conversions, methods

__all__ = ["autograd_methods", "closures", "conversions", "methods"]
