"""All op records. Importing this package fills `definition.DEFINITIONS`."""

from adjit.ir.ops import memory, region

__all__ = ["memory", "region"]
