"""The version of adjit: of the distribution, and part of every cache key."""

VERSION = "0.1.0"
