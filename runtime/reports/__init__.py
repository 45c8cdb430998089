"""Reports on compiled functions: compilation, memory and time."""
