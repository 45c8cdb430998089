"""Rewrites that make graphs smaller, and passes that move work out of loops."""
