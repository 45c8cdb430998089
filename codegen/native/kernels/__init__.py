"""Fused kernels: elementwise ops and reductions over rows, computed in one pass in explicit vectors."""
