"""The native entry: machine code that Python calls in place of a compiled function."""
