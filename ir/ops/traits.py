"""Sets of ops that share a trait, by name, computed from the op records."""

from __future__ import annotations

from collections.abc import Callable

import adjit.ir.ops  # noqa: F401  (fills DEFINITIONS)
from adjit.ir.definition import DEFINITIONS, Kind, OpCost, OpDefinition, RegionUse


def _names(has_trait: Callable[[OpDefinition], bool]) -> frozenset[str]:
    return frozenset(name for name, definition in DEFINITIONS.items() if has_trait(definition))


def _used_as(*uses: RegionUse) -> frozenset[str]:
    return _names(lambda op: op.region_use in uses)


ELEMENTWISE = tuple(name for name, op in DEFINITIONS.items() if op.kind is Kind.ELEMENTWISE)
REDUCTIONS = tuple(name for name, op in DEFINITIONS.items() if op.kind is Kind.REDUCTION)
"""Names of reductions, in the order of the records, in which all rules for them are tried."""

# -- cost inside a kernel

FREE_IN_KERNELS = _names(lambda op: op.cost is OpCost.FREE)
"""Ops that cost nothing inside a kernel: each kernel gets a copy of its own instead of a buffer."""

SAME_ELEMENTS = FREE_IN_KERNELS & _names(lambda op: op.kind is Kind.MOVEMENT)
"""Ops whose result at a position of a kernel equals the operand at this position."""

FREE_IN_TILES = FREE_IN_KERNELS & (SAME_ELEMENTS | _names(lambda op: op.uniform))
"""Ops that become part of the kernels that read them, and of each tile that needs them."""

CHEAP = _names(lambda op: op.cost is OpCost.CHEAP)
"""Ops of few instructions, which do not slow down a product's tiles."""

TRANSCENDENTAL = _names(lambda op: op.cost is OpCost.TRANSCENDENTAL)
"""Ops that cost many times an addition."""

CACHED_OPS = _names(lambda op: op.cost is not None and op.cost >= OpCost.DIVISION)
"""Ops that cost more than storing and loading a value in the L1 cache."""

# -- operands and results

COMMUTATIVE = _names(lambda op: op.commutative)
ALIASES = _names(lambda op: op.alias)
"""Ops whose result may be the memory of their operand, unchanged."""

VIEWS = _names(lambda op: op.view)
"""Ops that move nothing, or next to nothing."""

UPDATES = _names(lambda op: op.updates)
"""Ops that replace elements of their first operand."""

SAVES_OPERANDS = _names(lambda op: op.saves_operands)
"""Ops whose results eager tensors do not save, as in PyTorch."""

STRONG = _names(lambda op: op.strong > 0)
"""Products and quotients in which a 0 counts more than an infinity or NaN."""

# -- ops with regions

CALLS = _used_as(RegionUse.CALL)
EXPANDED = _used_as(RegionUse.TRANSFORM, RegionUse.CALL)
"""Ops that become other ops when a graph is differentiated."""

TRANSFORMS = EXPANDED | {"stop_gradient"}
"""Ops that have a meaning for derivatives alone: none is left after differentiation."""

CONTROL_FLOW = _used_as(RegionUse.CONTROL_FLOW)
NESTED_PROGRAMS = _used_as(RegionUse.CONTROL_FLOW, RegionUse.TILING)
"""Ops whose regions are programs by themselves."""

HOST_CALLS = _used_as(RegionUse.HOST)
"""Ops that call functions of Python."""

KERNELS = _used_as(RegionUse.KERNEL)
