"""Caches: compiled code on disk, programs by signature, and what transforms made of a function."""
