"""adjit"""

from adjit.ir.version import VERSION as __version__

__all__ = ["__version__"]
