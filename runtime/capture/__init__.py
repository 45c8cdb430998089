"""Captured state of compiled functions that read and change tensors: found by the trace, guarded and written back at every call."""
