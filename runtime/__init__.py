"""Compiles and runs functions: signatures, executables, memory, threads, the disk cache, transforms and reports."""
