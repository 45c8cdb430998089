"""Guards: the objects that a trace read besides its arguments, and checks that they are the same at a later call."""
