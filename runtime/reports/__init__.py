"""Reports of compiled functions on their compilation, memory and time."""
