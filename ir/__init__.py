"""Graph IR: types, op records, text form, verifier and the reference interpreter. Imports nothing else of adjit."""
