"""Programs as libraries for C: one module with the code for several processors, its C functions, and the header."""
