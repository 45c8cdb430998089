"""The portable backend: kernels as Python text, which Numba compiles."""
