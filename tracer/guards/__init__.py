"""Guards: what a trace read besides its arguments, and whether that is still the same at a later call."""
