"""Chains of products that run slice by slice of the batch: which, how many slices, and the graph of one."""
