"""Picture of the memory timeline."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from adjit.ir.errors import Role, UnsupportedError
from adjit.runtime.reports.memory_blocks import MemoryBlock, ends, format_bytes
from adjit.tracer.user_location import find_user_location

COLOURS = {Role.PRIMAL: "#9ecae1", Role.ADJOINT: "#fdbe85", Role.RECOMPUTE: "#a1d99b", Role.UPDATE: "#bcbddc"}
EDGE = "#444444"
WIDTH, HEIGHT = 14.0, 8.5                       # size of the picture, in inches
LEFT, BOTTOM, ACROSS, UP = 0.06, 0.25, 0.92, 0.64      # position and size of the timeline, as fractions of the picture
LETTER, LINE = 0.0085, 0.019                    # width of a letter and height of a line at font size 1, in inches
SIZES = (8.0, 6.5, 5.0)
LINES_AT_PEAK = 6
"""Source lines listed below the timeline, with their bytes at the peak."""


def draw_timeline(name: str, blocks: Sequence[MemoryBlock], live_bytes: Sequence[int], arena_bytes: int, naive_bytes: int,
                  path: Path) -> None:
    """Draw blocks as rectangles (ops to the right, bytes of the arena upwards), and the line of bytes in use."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise UnsupportedError(f"the memory timeline cannot be drawn: {error}", find_user_location(),
                               hint="pip install 'adjit[plot]'") from None
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch, Rectangle
    from matplotlib.patheffects import withStroke
    from matplotlib.ticker import MaxNLocator

    factor, unit = _unit(arena_bytes)
    steps, top = max(len(live_bytes), 1), 1.05 * max(arena_bytes, 1) / factor
    figure = Figure(figsize=(WIDTH, HEIGHT))
    axes = figure.add_axes((LEFT, BOTTOM, ACROSS, UP))
    axes.set_xlim(0, steps)
    axes.set_ylim(0, top)
    for block, end in zip(blocks, ends(blocks), strict=True):
        x, y, width, height = block.first_use, block.offset / factor, end - block.first_use, block.size / factor
        colour = COLOURS[block.role]
        axes.add_patch(Rectangle((x, y), width, height, facecolor=colour, edgecolor=EDGE, linewidth=0.4))
        text, size = _label(block, width * WIDTH * ACROSS / steps, height * HEIGHT * UP / top)
        if text:
            axes.text(x + width / 2, y + height / 2, text, fontsize=size, ha="center", va="center", clip_on=True, zorder=4,
                      path_effects=[withStroke(linewidth=2.5, foreground=colour)])
    in_use = [count / factor for count in (*live_bytes, *live_bytes[-1:])] or [0.0, 0.0]
    axes.step(range(steps + 1), in_use, where="post", color="black", linewidth=1.3, zorder=3)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("op of the program")
    axes.set_ylabel(f"{unit} of the arena")
    most = max(live_bytes, default=0)
    axes.set_title(f"@{name}: {format_bytes(most)} of working memory at the peak, in an arena of {format_bytes(arena_bytes)}\n"
                   f"keeping every intermediate value would take {format_bytes(naive_bytes)}", fontsize=11, loc="left")
    roles = [role for role in Role if any(block.role is role for block in blocks)]
    handles = [*(Patch(facecolor=COLOURS[role], edgecolor=EDGE, label=role.phase) for role in roles),
               Line2D([], [], color="black", label="bytes in use")]
    axes.legend(handles=handles, loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=len(handles), fontsize=9, frameon=False)
    figure.text(LEFT, BOTTOM - 0.075, _held_at_peak(blocks, live_bytes), fontsize=9, family="monospace", va="top")
    figure.savefig(path, dpi=150, bbox_inches="tight", pad_inches=0.2)


def _unit(size: int) -> tuple[float, str]:
    unit = format_bytes(size).split()[1]
    return {"B": 1.0, "kB": 1e3, "MB": 1e6, "GB": 1e9}[unit], unit


def _held_at_peak(blocks: Sequence[MemoryBlock], live_bytes: Sequence[int]) -> str:
    """The source lines with the most bytes at the peak, one per line."""
    if not blocks:
        return "no working memory"
    peak = max(range(len(live_bytes)), key=lambda index: live_bytes[index])
    held: dict[str, int] = {}
    for block, end in zip(blocks, ends(blocks), strict=True):
        if block.first_use <= peak < end:
            held[block.source] = held.get(block.source, 0) + block.size
    largest = sorted(held.items(), key=lambda item: -item[1])
    lines = [f"in use at the peak (op {peak}), by the source line that made it:"]
    lines += [f"{format_bytes(size):>9}  {_cut(source, 110)}" for source, size in largest[:LINES_AT_PEAK]]
    if len(largest) > LINES_AT_PEAK:
        rest = largest[LINES_AT_PEAK:]
        lines.append(f"{format_bytes(sum(size for _, size in rest)):>9}  of {len(rest)} other lines")
    return "\n".join(lines).replace("$", r"\$")


def _label(block: MemoryBlock, width: float, height: float) -> tuple[str, float]:
    """The longest label that fits `width` x `height` inches, and its font size; "" if not even the line number fits."""
    line, _, text = block.source.replace("$", r"\$").partition("  ")
    for size in SIZES:
        letters = int(width / (LETTER * size))
        if LINE * size > height or len(line) > letters:
            continue
        if text and len(line) + 2 + len(text) > letters and 2 * LINE * size <= height:
            return f"{line}\n{_cut(text, letters)}", size
        room = letters - len(line) - 2
        return (f"{line}  {_cut(text, room)}" if text and room >= 8 else line), size
    return "", SIZES[-1]


def _cut(text: str, letters: int) -> str:
    return text if len(text) <= letters else text[:max(letters - 1, 1)] + "…"
