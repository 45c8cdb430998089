"""Agreement of the ranks on a program before its first run, so that programs that differ are an error, not a wait for ever.

Each rank tells all others which collectives its new program runs, in order, and waits until it knows theirs. Two kinds of waits would never
end, and are found by what the ranks say with it, the number of collectives that they have run:

- A rank waits in a collective for one that waits here, for the agreement on another program. Nobody can call it back from there; a thread
  of its own finds it (`_watch`), says so, and ends all ranks.
- A rank waits, here or in a collective, for one whose process has come to its end.

Equal programs may still run different collectives, where a loop or a branch depends on values that differ. So each rank sends samples of
the history of its collectives (`ir/communicator.py`) to its neighbour, once a second if there are new ones, which compares them with its
own.
"""

from __future__ import annotations

import atexit
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from adjit.codegen.process.off_main_thread import check_cancelled
from adjit.ir.analysis.collective_order import collectives_of, first_collective
from adjit.ir.communicator import EVENTS, WORLD
from adjit.ir.dataclass import dataclass
from adjit.ir.errors import DistributedError, Location
from adjit.ir.graph import Graph

NOTICE_AFTER = 5.0
"""Seconds after which a rank that waits for others says so."""

STUCK_AFTER = 1.0
"""Seconds within one collective after which a rank looks whether the others can come to it at all."""

_COMPARED_EVERY = 1.0
"""Seconds between two comparisons of histories."""

_FORWARDED_AFTER = 0.5
"""Seconds after which a launcher has read what a rank wrote."""

_PROGRAM, _END, _HISTORY = 1, 2, 3
"""Tags of messages."""


@dataclass(frozen=True, slots=True)
class Announcement:
    """What a rank says of its new program: name, user's line, collectives, and the number of collectives that it has run before."""

    name: str
    place: str
    collectives: tuple[str, ...]
    ended: int

    def __str__(self) -> str:
        return f"{self.name} ({self.place})" if self.place else self.name


class Agreement:
    """Agreement over `control`, a communicator of its own."""

    def __init__(self, mpi: Any, control: Any):
        self._mpi, self._control = mpi, control
        self._lock = threading.Lock()
        self._announced: dict[int, list[Announcement]] = {rank: [] for rank in range(control.size)}
        self._ended: dict[int, int] = {}            # ranks that have come to their end, and the collectives that they ran
        self._sent: list[Any] = []
        self._last: Announcement | None = None      # of the programs that ranks agreed on
        self._histories: dict[int, dict[int, tuple[int, int]]] = {}
        self._stop = threading.Event()
        self._watcher = threading.Thread(target=self._watch, name="adjit.distributed", daemon=True)
        if mpi.Query_thread() == mpi.THREAD_MULTIPLE:
            self._watcher.start()
        atexit.register(self._leave)

    def agree(self, graph: Graph, collectives: tuple[str, ...]) -> None:
        """Return when all ranks have come here with the same `collectives`.

        Raises `DistributedError`, on all ranks, that names those whose programs differ, or a rank that has come to its end.
        """
        place: Location | None = first_collective(graph)
        mine = Announcement(graph.name, str(place or ""), collectives, int(WORLD.calls[1]))
        others = self._others()
        self._send(mine, _PROGRAM, others)
        begin, pause, noticed = time.monotonic(), 20e-6, False
        while True:
            self._receive()
            missing = [rank for rank in others if not self._announced[rank]]
            if not missing:
                break
            gone = [rank for rank in missing if rank in self._ended]
            if gone:
                raise DistributedError(f"{ranks_in_words(gone)} came to the end without the program {mine}, which this rank "
                                       f"({self._control.rank}) is about to run with them", place,
                                       hint="all ranks have to run the same collectives in the same order")
            if time.monotonic() - begin > NOTICE_AFTER and not noticed:
                noticed = True
                self._say(f"waits since {NOTICE_AFTER:.0f} s for {ranks_in_words(missing)} to come to the program {mine}")
            check_cancelled()
            time.sleep(pause)
            pause = min(2 * pause, 5e-3)
        said = {rank: self._announced[rank].pop(0) for rank in others} | {self._control.rank: mine}
        groups = Counter(said[rank].collectives for rank in sorted(said))
        if len(groups) > 1:
            raise DistributedError(_difference(said, groups.most_common(1)[0][0]), place,
                                   hint="all ranks have to run the same collectives, on arrays of the same shapes, in the same order")
        self._last = mine

    def _others(self) -> list[int]:
        return [rank for rank in range(self._control.size) if rank != self._control.rank]

    def _send(self, message: Any, tag: int, ranks: Iterable[int]) -> None:
        with self._lock:
            self._sent = [request for request in self._sent if not request.Test()]
            self._sent += [self._control.isend(message, rank, tag) for rank in ranks]

    def _receive(self) -> None:
        """Take all messages that there are."""
        with self._lock:
            for tag in (_PROGRAM, _END, _HISTORY):      # a rank says what it runs before it ends
                status = self._mpi.Status()
                while (message := self._control.improbe(self._mpi.ANY_SOURCE, tag, status)) is not None:
                    rank, content = status.Get_source(), message.recv()
                    if tag == _PROGRAM:
                        self._announced[rank].append(content)
                    elif tag == _END:
                        self._ended[rank] = content
                    else:
                        self._histories[rank] = content

    def _watch(self) -> None:
        last, since, compared, sent = -1, 0.0, time.monotonic(), 0
        while not self._stop.wait(0.25):
            if time.monotonic() - compared > _COMPARED_EVERY:
                compared, sent = time.monotonic(), self._compare(sent)
            begun, ended = map(int, WORLD.calls[:2])
            if begun == ended or begun != last:
                last, since = begun, time.monotonic()
            elif time.monotonic() - since > STUCK_AFTER:
                self._receive()
                why = [f"rank {rank}, which waits to run another program, {said[0]}" for rank, said in self._announced.items()
                       if said and said[0].ended < begun]
                why += [f"rank {rank}, which has come to its end" for rank, count in self._ended.items() if count < begun]
                if why and int(WORLD.calls[1]) == ended:
                    self._say(f"waits in collective number {begun} for {' and '.join(why)}: all ranks have to run the same collectives in "
                              "the same order. All ranks end here")
                    end_all(self._mpi)

    def _compare(self, sent: int) -> int:
        """Send samples of this rank's history to its neighbour if there are more events than `sent`, and compare those that came with its
        own; returns the number of events. Where histories differ, all ranks end."""
        events, rank = int(WORLD.calls[EVENTS]), self._control.rank
        if events != sent:
            self._send(WORLD.samples(), _HISTORY, [(rank + 1) % self._control.size])
        self._receive()
        mine = WORLD.samples()
        for other, theirs in self._histories.items():
            apart = [number for number in theirs.keys() & mine.keys() if _differ(theirs[number], mine[number])]
            if apart:
                program = "" if self._last is None else f", such as {self._last}"
                self._say(f"finds that {ranks_in_words(sorted((rank, other)))} have run different collectives, or loops with other numbers "
                          f"of trips: a loop or a branch of a program{program}, depends on values that are not the same on all ranks. All "
                          "ranks end here")
                end_all(self._mpi)
        return events

    def _say(self, text: str) -> None:
        print(f"adjit.distributed: rank {self._control.rank} {text}", file=sys.stderr, flush=True)

    def _leave(self) -> None:
        """Tell the others that this rank comes to its end."""
        self._stop.set()
        if not self._mpi.Is_finalized():
            self._send(int(WORLD.calls[1]), _END, self._others())


def _differ(one: tuple[int, int], other: tuple[int, int]) -> bool:
    """True if two ranks had other histories. Those of a rank that runs a function step by step in Python, where others run a program, are
    not compared."""
    (digest, by_python), (other_digest, others_by_python) = one, other
    return by_python == others_by_python and digest != other_digest


def end_all(mpi: Any) -> None:
    """End all ranks. The launcher forwards what was written until then only if it has the time to read it."""
    sys.stdout.flush()
    sys.stderr.flush()
    time.sleep(_FORWARDED_AFTER)
    mpi.COMM_WORLD.Abort(1)


def _difference(said: dict[int, Announcement], usual: tuple[str, ...]) -> str:
    """The ranks whose collectives are not those of most ranks, and the first difference."""
    other = [rank for rank in sorted(said) if said[rank].collectives != usual]
    most = [rank for rank in sorted(said) if said[rank].collectives == usual]
    theirs = said[other[0]].collectives
    index = next((i for i, (a, b) in enumerate(zip(usual, theirs, strict=False)) if a != b), min(len(usual), len(theirs)))
    here, there = _line(usual, index), _line(theirs, index)
    return (f"the programs of the ranks differ: {ranks_in_words(other)} would run {said[other[0]]}, whose collective {index + 1} is "
            f"{there}; {ranks_in_words(most)} would run {said[most[0]]}, where it is {here}")


def _line(lines: Sequence[str], index: int) -> str:
    return lines[index] if index < len(lines) else "missing"


def ranks_in_words(numbers: Sequence[int]) -> str:
    """Ranks in words.

    >>> ranks_in_words([3]), ranks_in_words([0, 2])
    ('rank 3', 'ranks 0, 2')
    """
    shown = ", ".join(map(str, numbers[:8])) + (f" and {len(numbers) - 8} more" if len(numbers) > 8 else "")
    return f"rank{'s' if len(numbers) > 1 else ''} {shown}"


def check_collectives(graph: Graph, collectives: tuple[str, ...]) -> None:
    """Have all ranks agree on the collectives of a new program, if it has any. Raises the errors of `Agreement.agree`."""
    if collectives and WORLD.agreement is not None:
        WORLD.agreement.agree(graph, collectives)


__all__ = ["Agreement", "check_collectives", "collectives_of"]
