"""Traces of one call: made again until they show what one trace alone cannot."""
