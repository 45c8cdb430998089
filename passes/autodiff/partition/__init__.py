"""Partition of a joint graph into a forward and a backward half: saved values and recomputation."""
