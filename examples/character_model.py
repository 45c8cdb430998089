"""Train a small transformer to write Python, one character at a time, on the sources of the standard library; then let it write.

    python examples/character_model.py

Writes out/character_model.png. Needs the extra `demo`: pip install 'adjit[demo]'.
"""

from __future__ import annotations

import math
import sysconfig
from pathlib import Path

import matplotlib
import numpy as np
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

import adjit as aj
from adjit import nn
from adjit.nn import functional as F

matplotlib.use("Agg")
from matplotlib import pyplot

MODULES = ("abc", "argparse", "bisect", "calendar", "copy", "csv", "dataclasses", "functools", "glob", "heapq", "inspect", "pathlib",
           "random", "shutil", "statistics", "string", "tempfile", "textwrap", "threading", "typing", "uuid", "zipfile")
CONTEXT, WIDTH, HEADS, LAYERS, BATCH = 64, 96, 4, 2, 32
DEVICE = "cpu"          # "cuda" trains on an NVIDIA GPU


class Block(nn.Module):
    """Attention to what came before, then a layer of its own for each position."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.feed_forward = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU("tanh"), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x: aj.Tensor) -> aj.Tensor:
        batch, length, _ = x.shape
        q, k, v = self.qkv(self.norm1(x)).reshape(batch, length, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4).unbind(0)
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(batch, length, WIDTH))
        return x + self.feed_forward(self.norm2(x))


class Model(nn.Module):
    """Characters, as numbers, to scores of the next character at every position."""

    def __init__(self, characters: int) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(characters, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, characters)

    def forward(self, tokens: aj.Tensor) -> aj.Tensor:
        places = aj.tensor(np.arange(CONTEXT), device=tokens.device)
        return self.head(self.norm(self.blocks(self.tokens(tokens) + self.positions(places))))


@aj.compile
def train_step(model: Model, optimizer: aj.optim.AdamW, tokens: aj.Tensor, targets: aj.Tensor) -> aj.Tensor:
    """One step: the loss in bits a character."""
    optimizer.zero_grad()
    scores = model(tokens)
    loss = F.cross_entropy(scores.reshape(-1, scores.shape[-1]), targets.reshape(-1))
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return loss / math.log(2.0)


@aj.compile
def next_scores(model: Model, tokens: aj.Tensor) -> aj.Tensor:
    return model(tokens)[0, -1]


def sources() -> str:
    """The text to learn: modules of the standard library, in ASCII."""
    folder = Path(sysconfig.get_path("stdlib"))
    texts = [path.read_text(encoding="utf-8") for name in MODULES for path in [folder / f"{name}.py"] if path.exists()]
    return "".join(character for character in "\n\n".join(texts) if character == "\n" or " " <= character <= "~")


def train(model: Model, data: np.ndarray, steps: int) -> list[float]:
    """The loss of every step."""
    optimizer = aj.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.01)
    schedule = aj.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, total_steps=steps + 1)
    generator = np.random.default_rng(0)
    losses: list[float] = []
    shown = TextColumn("{task.fields[bits]:.2f} bits a character")
    with Progress(TextColumn("steps"), BarColumn(), MofNCompleteColumn(), shown) as progress:
        task = progress.add_task("", total=steps, bits=float("nan"))
        for _ in range(steps):
            starts = generator.integers(0, len(data) - CONTEXT - 1, BATCH)
            window = data[starts[:, None] + np.arange(CONTEXT + 1)]
            tokens, targets = aj.tensor(window[:, :-1], device=DEVICE), aj.tensor(window[:, 1:], device=DEVICE)
            losses.append(train_step(model, optimizer, tokens, targets).item())
            schedule.step()
            progress.update(task, advance=1, bits=np.mean(losses[-20:]))
    return losses


def write(model: Model, alphabet: str, prompt: str, length: int, temperature: float = 0.7) -> str:
    """`prompt`, continued by what the model holds for likely."""
    generator = np.random.default_rng(0)
    text = prompt
    with aj.no_grad():
        for _ in range(length):
            recent = text[-CONTEXT:].rjust(CONTEXT, "\n")
            tokens = aj.tensor([[alphabet.index(character) for character in recent]], device=DEVICE)
            scores = next_scores(model, tokens).cpu().numpy().astype(float)
            likely = np.exp((scores - scores.max()) / temperature)
            text += alphabet[generator.choice(len(alphabet), p=likely / likely.sum())]
    return text


def plot(losses: list[float], path: Path) -> None:
    figure, axes = pyplot.subplots(figsize=(8, 4.5), layout="constrained")
    axes.plot(losses, color="0.8", linewidth=1, label="one batch")
    width = min(51, len(losses))
    axes.plot(np.arange(len(losses) - width + 1) + width // 2, np.convolve(losses, np.full(width, 1 / width), "valid"), linewidth=2,
              label=f"mean of {width} batches")
    axes.set(xlabel="step", ylabel="bits a character", title="a transformer learns to write Python")
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(path, dpi=120)


def main(steps: int = 1000, length: int = 400, out: Path = Path("out")) -> float:
    """Train, write, draw; the last loss, the mean of some batches, in bits a character."""
    aj.manual_seed(0)
    text = sources()
    alphabet = "".join(sorted(set(text)))
    data = np.array([alphabet.index(character) for character in text])
    print(f"{len(data)} characters, {len(alphabet)} different ones; compiling for this machine ...")
    model = Model(len(alphabet)).to(DEVICE)
    losses = train(model, data, steps)
    model.eval()
    print(write(model, alphabet, "def ", length))
    out.mkdir(exist_ok=True)
    plot(losses, out / "character_model.png")
    bits = float(np.mean(losses[-20:]))
    print(f"{bits:.2f} bits a character; picture: {out / 'character_model.png'}")
    return bits


if __name__ == "__main__":
    main()
