"""Compilation and execution of functions: signatures, executables, memory, threads, the disk cache, transforms and reports."""
