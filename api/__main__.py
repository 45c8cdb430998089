"""Command line: `python -m adjit info`, `doctor`, `cache`, `inspect FILE.adjit`, `bench`, `opt FILE.ir --passes a,b`, `replay FILE`,
`report MODULE:FUNCTION`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from adjit.cli import bench, cache, doctor, info, inspect, opt, replay, report
from adjit.ir.errors import AdjitError
from adjit.ir.version import VERSION


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status: 0, or 1 after an error that was reported, or 2 for a command line that cannot be read."""
    parser = argparse.ArgumentParser(prog="adjit", description="Compile and differentiate NumPy programs.")
    parser.add_argument("--version", action="version", version=f"adjit {VERSION}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for command in (info, doctor, cache, inspect, bench, opt, replay, report):
        command.add_parser(commands)
    options = parser.parse_args(arguments)
    try:
        status: int = options.run(options)
        sys.stdout.flush()
        return status
    except BrokenPipeError:         # the reader, such as `head`, has read enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (AdjitError, OSError, ValueError) as error:
        print(f"adjit {options.command}: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
