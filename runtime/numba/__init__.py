"""Execution of programs step by step from Python: kernels of the numba backend, and NumPy."""
