"""Vectorcall fast path: machine code that Python calls in place of a compiled function."""
