"""Execution of programs on NVIDIA GPUs, and on the emulated device."""
