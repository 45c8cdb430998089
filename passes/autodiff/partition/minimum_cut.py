"""Minimum cut of a directed network, by Dinic's algorithm.

Source: Y. Dinitz, "Algorithm for solution of a problem of maximum flow in a network with power estimation", Soviet Math. Doklady 11 (1970)
1277-1280.
"""

from __future__ import annotations

INFINITE = 1 << 62


class Network:
    """Network of numbered nodes; node 0 is the source, node 1 the sink."""

    SOURCE = 0
    SINK = 1

    def __init__(self) -> None:
        self._edges_of: list[list[int]] = [[], []]
        self._target: list[int] = []        # head of each edge; edge e and its reverse e ^ 1 are neighbours
        self._free: list[int] = []          # residual capacity of each edge

    def node(self) -> int:
        """Add a node; returns its number."""
        self._edges_of.append([])
        return len(self._edges_of) - 1

    def edge(self, begin: int, end: int, capacity: int = INFINITE) -> None:
        self._edges_of[begin].append(len(self._target))
        self._target.append(end)
        self._free.append(capacity)
        self._edges_of[end].append(len(self._target))
        self._target.append(begin)
        self._free.append(0)

    def cut(self) -> tuple[int, set[int]]:
        """Capacity of the minimum cut, and the nodes on the sink's side of that minimum cut which lies nearest to the sink.

        >>> network = Network()
        >>> a = network.node()
        >>> network.edge(network.SOURCE, a, 3), network.edge(a, network.SINK, 2)
        (None, None)
        >>> network.cut()
        (2, {1})
        """
        total = 0
        while True:
            levels = self._levels()
            if levels[self.SINK] < 0:
                return total, self._sink_side()
            total += self._blocking_flow(levels)

    def _levels(self) -> list[int]:
        """Distance of each node from the source over edges with free capacity; -1 if there is no path."""
        levels = [-1] * len(self._edges_of)
        levels[self.SOURCE] = 0
        reached = [self.SOURCE]
        for node in reached:
            for edge in self._edges_of[node]:
                target = self._target[edge]
                if self._free[edge] and levels[target] < 0:
                    levels[target] = levels[node] + 1
                    reached.append(target)
        return levels

    def _blocking_flow(self, levels: list[int]) -> int:
        """Augment shortest paths until none is left; returns the flow that was added."""
        total = 0
        next_edge = [0] * len(self._edges_of)
        path: list[int] = []
        node = self.SOURCE
        while True:
            if node == self.SINK:
                amount = min(self._free[edge] for edge in path)
                total += amount
                for edge in path:
                    self._free[edge] -= amount
                    self._free[edge ^ 1] += amount
                full = next(position for position, edge in enumerate(path) if not self._free[edge])
                node = self._target[path[full] ^ 1]
                del path[full:]
                continue
            edges = self._edges_of[node]
            while next_edge[node] < len(edges):
                edge = edges[next_edge[node]]
                if self._free[edge] and levels[self._target[edge]] == levels[node] + 1:
                    break
                next_edge[node] += 1
            else:
                if not path:
                    return total
                node = self._target[path.pop() ^ 1]
                next_edge[node] += 1
                continue
            path.append(edge)
            node = self._target[edge]

    def _sink_side(self) -> set[int]:
        """Nodes from which the sink can be reached over edges with free capacity."""
        side = {self.SINK}
        reached = [self.SINK]
        for node in reached:
            for edge in self._edges_of[node]:
                begin = self._target[edge]
                if self._free[edge ^ 1] and begin not in side:
                    side.add(begin)
                    reached.append(begin)
        return side
