"""Portable backend: kernels as Python text, which Numba compiles."""
