"""Eager tensors: every operation runs at once and is remembered, so that derivatives can be taken of whatever was run."""

from adjit.eager import apply_closed, autograd_methods, conversions, methods

__all__ = ["apply_closed", "autograd_methods", "conversions", "methods"]
