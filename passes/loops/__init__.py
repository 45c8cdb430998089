"""Loops that tracing unrolled: repeated stretches of a graph are found and become `scan` ops."""
