"""Text about a program on a device: its kernels, and the arrays that each call copies there."""

from __future__ import annotations

from collections import Counter

from adjit.codegen.cuda.nodes import HostNode
from adjit.runtime.cuda.device_executable import DeviceExecutable
from adjit.runtime.program import Program
from adjit.runtime.reports.memory_blocks import format_bytes


def describe_kernels(executable: DeviceExecutable) -> list[str]:
    """A line for each kernel: how often a call launches it, threads of a block, bytes of shared memory."""
    program = executable.program
    launches = program.launches
    counts = Counter(node.name for node in launches)
    width = max(map(len, counts), default=8)
    lines = [f"{len(launches)} launches on the {executable.driver.name}",
             f"  {'kernel':<{width}}  {'used':>4}  {'threads':>7}  {'shared bytes':>12}"]
    lines += [f"  {name:<{width}}  {counts[name]:>4}  {kernel.threads:>7}  {kernel.shared_bytes:>12}"
              for name, kernel in program.kernels.items()]
    checks = sum(len(each.checks) for each in program.programs())
    if checks:
        told = "whose errors come with the results" if program.defers else "which each call waits for"
        lines.append(f"{checks} checks of indices, {told}")
    steered = [node for each in program.programs() for node in each.nodes if isinstance(node, HostNode)]
    staying = Counter(node.name for node in steered if program.stays(node))
    if staying:
        lines.append(f"loops and branches that stay on the device: {_counted(staying)}")
    waiting = Counter(node.name for node in steered if not program.stays(node) and node.name != "scan")
    if waiting:
        lines.append(f"decisions and calls that the host waits for: {_counted(waiting)}")
    return lines


def _counted(names: Counter[str]) -> str:
    return ", ".join(f"{count} {name}" for name, count in names.items())


def describe_copies(program: Program) -> list[str]:
    """What each call copies to the device; before the first one, arrays from outside count as the processor's."""
    executable = program.executable
    copied = executable.copied if isinstance(executable, DeviceExecutable) else None
    if copied is None:
        captured = program.planned.params[len(program.traced):]
        copied = [program.signature.leaf_type(index).nbytes for index in program.traced if not program.signature.is_on_device(index)]
        copied += [value.type.nbytes for value in captured]
    arrays = f"{len(copied)} array{'s' * (len(copied) > 1)}"
    return [f"each call copies {format_bytes(sum(copied))} to the device, of {arrays}"] if copied else []
