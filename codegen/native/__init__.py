"""Whole programs as machine code: the steps of a planned graph, their schedule, and the entry from Python, in one LLVM module."""
