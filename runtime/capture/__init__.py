"""Compiled functions that read and change tensors: what the trace met, and what is checked and written back at every call."""
