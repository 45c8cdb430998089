"""Kernels of ops that no fused kernel runs: movement, and reductions along several axes."""
