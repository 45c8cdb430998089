"""Programs whose steps Python calls: kernels of the numba backend, and NumPy."""
