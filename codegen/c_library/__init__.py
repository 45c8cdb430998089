"""Programs as libraries for C: one module with code for several processors, its C functions, and the header."""
