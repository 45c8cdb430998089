"""Complex numbers become pairs of reals: the pass, and the definition of each op on pairs."""
