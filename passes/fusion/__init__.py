"""Fusion of elementwise ops and reductions into kernels, and of epilogues into matmuls."""
