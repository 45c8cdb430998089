"""Fused ops to machine code: kernel text, scalar functions, compilation, linking."""
