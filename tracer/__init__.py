"""Tracing of Python functions into graphs: traced arrays, NumPy's protocols and functions, signatures, guards."""

from adjit.tracer import functions, methods

__all__ = ["functions", "methods"]
