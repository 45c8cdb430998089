"""Whole programs as machine code: every step of a planned graph, the schedule, and the entry from Python, in one LLVM module."""
