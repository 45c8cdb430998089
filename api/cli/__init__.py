"""Commands of `python -m adjit`."""
