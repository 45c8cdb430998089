"""Eager tensors: every operation runs at once and is remembered, so that derivatives can be taken of whatever was run."""
