"""Vectorcall fast path: descriptors of compiled functions and programs that machine code reads."""
