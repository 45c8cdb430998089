"""Decisions on traced values: points of the user's program at which they are made, and the control flow between them."""
