"""Captured state: tensors that compiled functions read and change; found by the trace, guarded, and written back at every call."""
