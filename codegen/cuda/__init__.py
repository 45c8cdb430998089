"""Planned graphs as kernels for NVIDIA GPUs, in LLVM text that this processor can run, too."""
