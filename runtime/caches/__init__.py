"""Caches: compiled code on disk, programs by signature, and the results of transforms of a function."""
