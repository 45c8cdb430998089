"""Tiling along the batch: slice rules, groups, cost model, and the graph of one tile."""
