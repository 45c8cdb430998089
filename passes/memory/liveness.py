"""How many bytes a program holds while it runs: live bytes op by op, and their peak.

Counted is working memory, as the memory plan would use it: what ops make, without parameters and without what the program
returns; reshapes and in-place results take nothing.
"""

from __future__ import annotations

from itertools import accumulate

from adjit.ir.graph import Graph
from adjit.ir.memory_sizes import aligned
from adjit.passes.memory.donation import Donations
from adjit.passes.memory.packing import Block
from adjit.passes.memory.share_buffers import BufferSharing, share_buffers


def live_bytes(graph: Graph, donations: Donations | None = None) -> list[int]:
    """The working bytes in use during each op.

    Where a donated buffer makes a copy necessary, that copy is an op more (see `share_buffers`). `donations` are those of the graph in
    any order of its ops, where they are known already.
    """
    sharing = share_buffers(graph, donations)
    changes = [0] * (len(sharing.graph.ops) + 1)
    for block in working_blocks(sharing):
        changes[block.first] += block.size
        changes[block.last + 1] -= block.size
    return list(accumulate(changes))[:-1]


def peak_bytes(graph: Graph) -> int:
    """The most working bytes in use at one time: no arena for this order of ops can be smaller."""
    return max(live_bytes(graph), default=0)


def working_blocks(sharing: BufferSharing) -> list[Block]:
    """The buffers without a fixed place, then the scratch memory of ops, as blocks to be placed in the arena."""
    blocks = [Block(buffer.size, buffer.first, buffer.last) for buffer in sharing.buffers if buffer.slot is None]
    scratch = ((index, op.attrs.get("scratch_bytes", 0)) for index, op in enumerate(sharing.graph.ops))
    return blocks + [Block(aligned(size), index, index) for index, size in scratch if size]
