"""Graphs as Python functions of NumPy calls, for eager tensors."""
