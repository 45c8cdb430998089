"""Version of adjit: of the distribution, and a component of every cache key."""

VERSION = "0.1.0"
