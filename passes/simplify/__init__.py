"""Rewrites that make graphs smaller, and passes that take work out of loops."""
