"""Kernels: elementwise ops, reductions and rows of them, computed in one go in explicit vectors."""
