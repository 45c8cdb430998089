"""Elementary functions as straight-line arithmetic: each defined once, printed for a backend, no library called."""
