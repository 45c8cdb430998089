"""Derivatives of graphs: forward and reverse mode, and the partition of joint graphs."""
