"""What changed between two runs: flags what got slower by more than the noise of both.

    python benchmarks/compare.py BEFORE.json AFTER.json

The noise of a time is how far its rounds lie apart. Where the other libraries' versions are the same in both runs, what they changed by is
the machine's doing: it is taken out of adjit's change. Ends with status 1 where something of adjit's got slower, or takes more memory.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from catalogue import CATALOGUE
from figures import seconds, size
from results import Results, median_of

OURS = [name for name, entry in CATALOGUE.items() if entry.ours]
MIN_NOISE = 0.02
"""Differences below this are never flagged, however quiet the rounds were."""

MEMORY_NOISE = 0.05


@dataclass(frozen=True)
class Change:
    """One thing measured twice; `factor` is after over before without the machine's part, `noise` the share by which it may differ for
    nothing.
    """

    name: str
    before: str
    after: str
    factor: float
    noise: float

    @property
    def verdict(self) -> str:
        return "SLOWER" if self.factor > 1 + self.noise else "faster" if self.factor < 1 / (1 + self.noise) else ""


def changes(before: Results, after: Results) -> list[Change]:
    """Of every time of adjit that both runs have, then of its planned memory."""
    drift = machine_drift(before, after)
    times, memory = [], []
    for parts, new in after.cells():
        old = before.cell(*parts)
        if parts[-1] not in OURS or old is None:
            continue
        name = "/".join(parts[:-1] if parts[-1] == "adjit" else parts)
        first, second = median_of(old), median_of(new)
        if first is not None and second is not None:
            noise = max(MIN_NOISE, spread(old["rounds"]) + spread(new["rounds"]))
            times.append(Change(name, seconds(first), seconds(second), second / first / drift, noise))
        planned = [cell.get("memory", {}).get("planned") for cell in (old, new)]
        if planned[0] and planned[1] is not None:
            memory.append(Change(f"{name}: planned memory", size(planned[0]), size(planned[1]), planned[1] / planned[0], MEMORY_NOISE))
    return times + memory


def spread(rounds: Sequence[float]) -> float:
    """Half of the distance between the quartiles, twice for safety, as a share of the median; of fewer than four rounds, their whole
    distance.
    """
    middle = statistics.median(rounds)
    if len(rounds) < 4:
        return (max(rounds) - min(rounds)) / middle
    low, _, high = statistics.quantiles(rounds, n=4)
    return (high - low) / middle


def machine_drift(before: Results, after: Results) -> float:
    """What libraries that are the same in both runs changed by, in the median: more than 1 where the machine was slower the second time."""
    same = {library for library, facts in after.content["libraries"].items() if library not in OURS and facts.get("versions")
            and facts["versions"] == before.content["libraries"].get(library, {}).get("versions")}
    factors = [second / first for parts, new in after.cells("step") if parts[-1] in same
               and (first := median_of(before.cell(*parts))) is not None and (second := median_of(new)) is not None]
    return statistics.median(factors) if factors else 1.0


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    options = parser.parse_args(arguments)
    try:
        before, after = Results.read(options.before), Results.read(options.after)
    except (OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    found = changes(before, after)
    print(f"{before.content['commit']} ({before.content['begun']}) -> {after.content['commit']} ({after.content['begun']})")
    if before.content["machine"].get("processor") != after.content["machine"].get("processor"):
        print("The two runs are from different processors.")
    print(f"The machine: unchanged libraries took {machine_drift(before, after):.2f} times as long; factors are without that.\n")
    for change in found:
        found_again = f"{change.before:>9} -> {change.after:<9} x {change.factor:.2f}, noise {change.noise:4.0%}"
        print(f"{change.name:<36} {found_again}  {change.verdict}".rstrip())
    slower = [change for change in found if change.verdict == "SLOWER"]
    print(f"\n{len(slower)} of {len(found)} got slower or larger by more than the noise")
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
