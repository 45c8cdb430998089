"""LLVM text: functions and modules as objects, and the builder that fills them in."""
