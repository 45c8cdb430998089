"""What checking the graph after every pass costs: the time of the passes with verification as a multiple of the time without.

    python benchmarks/verification_cost.py [--runs 7]
"""

from __future__ import annotations

import argparse
import statistics

from workloads import WORKLOADS

from adjit.passes.options import Options
from adjit.passes.pipeline import PipelineResult, run_pipeline


def milliseconds(result: PipelineResult) -> tuple[float, float]:
    """Of all passes together, and of their verification."""
    return sum(record.milliseconds for record in result.records), sum(record.verify_milliseconds for record in result.records)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=7, help="runs of each workload, with and without in turn; medians count")
    runs = parser.parse_args().runs
    print(f"{'workload':<12} {'ops':>6} {'passes':>10} {'verified':>10} {'ratio':>6}")
    ratios = []
    for name, make in WORKLOADS.items():
        workload = make(backend="interpret")
        traced = workload.function.program(workload.function.fun, workload.arguments, {}).pipeline.graphs["traced"]
        without, checked = [], []
        for _ in range(runs):
            without.append(milliseconds(run_pipeline(traced, Options(), verify=False))[0])
            result = run_pipeline(traced, Options(), verify=True)
            checked.append(sum(milliseconds(result)))
        plain, verified = statistics.median(without), statistics.median(checked)
        ratios.append(verified / plain)
        ops = len(result.graphs["adjoint"].ops)
        print(f"{name:<12} {ops:>6} {plain:>7.1f} ms {verified:>7.1f} ms {ratios[-1]:>6.2f}")
    print(f"{'median':<12} {'':>6} {'':>10} {'':>10} {statistics.median(ratios):>6.2f}")


if __name__ == "__main__":
    main()
