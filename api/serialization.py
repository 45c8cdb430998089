"""`save` and `load`: weights, checkpoints and exported programs by one name each, as in PyTorch."""

from __future__ import annotations

import hashlib
import io
import os
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from adjit.eager.device import is_cuda, on_device
from adjit.eager.tensor import Tensor
from adjit.ir.errors import StateError, UnsupportedError
from adjit.ir.lazy_module import LazyModule
from adjit.runtime.exports.load import load as load_program
from adjit.tracer.tracebacks import user_frames_only
from adjit.tracer.trees import flatten
from adjit.tracer.user_location import find_user_location

if TYPE_CHECKING:
    from adjit.nn import pytorch_files, state
else:
    pytorch_files, state = LazyModule("adjit.nn.pytorch_files"), LazyModule("adjit.nn.state")


@user_frames_only
def save(obj: Any, f: Any) -> None:
    """Write weights or a checkpoint to a file in the safetensors format, which other libraries read, whatever the suffix.

    `obj` is a tensor, or a dict or list of tensors, numbers, strings and None, nested to any depth; a module or an optimizer stands for its
    `state_dict()`. `f` is a path, where the file appears whole or not at all, or a file that is open for writing. Raises `StateError` for
    other values, or without the package safetensors.

    >>> import adjit as aj, io
    >>> file = io.BytesIO()
    >>> aj.save({"weight": aj.ones(2), "epoch": 3}, file)
    >>> _ = file.seek(0)
    >>> aj.load(file)
    {'weight': tensor([1., 1.]), 'epoch': 3}
    """
    if hasattr(f, "write"):
        f.write(state.state_content(obj))
    else:
        state.save_state(obj, f)


@user_frames_only
def load(f: Any, map_location: Any = None, weights_only: bool = True, *, sha256: str | None = None) -> Any:
    """Read weights or a checkpoint, or an exported program as a function: the content says which.

    Weights are what `save` or `nn.save_state` wrote, any safetensors file, or what `torch.save` wrote: of its pickle only tensors, numbers,
    texts and containers are read, as with PyTorch's `weights_only=True`, and no code is run. `f` is a path or a file that is open for
    reading. `map_location` is the device on which the tensors are to be, "cuda"; anything else is the CPU.

    **A program (`.adjit`) is machine code, which runs with all the rights of this process: load only files that you trust**; see
    `CompiledFunction.export`. Loading and calling one needs adjit and NumPy only, and traces nothing. It is compiled, by llvmlite, only if
    the file has no code for this processor. `sha256` is the expected SHA-256 of the whole file, 64 hexadecimal digits: a file with
    another digest is refused before any of it is used.

    Raises `StateError` for weights that are damaged or of another digest, or a checkpoint that holds more than weights; `ExportError` for
    any other file that cannot be read; `UnsupportedError` for `weights_only=False` of a PyTorch file, and for a device that is not there.

    >>> import adjit as aj, tempfile, pathlib
    >>> double = aj.compile(lambda x: 2 * x)
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = pathlib.Path(folder.name) / "double.adjit"
    >>> _ = double.export(path, np.arange(3.0))
    >>> aj.load(path)(np.arange(3.0))
    array([0., 2., 4.])
    """
    there = map_location if isinstance(map_location, (str, int)) and is_cuda(map_location) else None
    is_open = hasattr(f, "read")
    if not is_open and not os.path.isfile(f):
        return load_program(f, sha256=sha256)       # the error says what it is
    name = str(getattr(f, "name", "the file")) if is_open else os.fspath(f)
    content = f.read() if is_open else None
    kind = _kind(io.BytesIO(content) if content is not None else f)
    if kind is None:
        if is_open:
            raise StateError(f"{name} holds no weights", find_user_location(), hint="exported programs are loaded by their path")
        return load_program(f, sha256=sha256)
    content = Path(f).read_bytes() if content is None else content
    if sha256 is not None and hashlib.sha256(content).hexdigest() != sha256.lower():
        raise StateError(f"{name} is not the file that was asked for: its SHA-256 is {hashlib.sha256(content).hexdigest()}",
                         find_user_location())
    if kind == "safetensors":
        return _moved(state.state_of(content, name), there)
    if kind == "legacy":
        raise StateError(f"{name} is in the format of PyTorch before 1.6", find_user_location(),
                         hint="convert it where PyTorch is installed: torch.save(torch.load(path), path)")
    if not weights_only:
        raise UnsupportedError(f"{name}: weights_only=False, for which a file runs code of its own", find_user_location(),
                               hint="leave it out to read the weights; torch.load, where PyTorch is installed, makes objects of others")
    return _moved(pytorch_files.read_checkpoint(content, name), there)


def _moved(found: Any, there: Any) -> Any:
    """What was read, its tensors on the card `there`, unless that is None."""
    for leaf in flatten(found)[0] if there is not None else ():
        if isinstance(leaf, Tensor):
            leaf.array = on_device(leaf.array, there)
    return found


_LEGACY = b"\x80\x02\x8a\nl\xfc\x9cF\xf9"
"""Pickle of the number that PyTorch's files began with before they were zip archives."""


def _kind(file: Any) -> str | None:
    """Return "safetensors", "pytorch" or "legacy" for files of weights, None for others."""
    try:
        with (open(file, "rb") if not hasattr(file, "read") else file) as stream:
            head = stream.read(9)
            if head == _LEGACY:
                return "legacy"
            if head[8:9] == b"{":
                return "safetensors"
            if head[:4] != b"PK\x03\x04":
                return None
            with zipfile.ZipFile(stream) as archive:
                return "pytorch" if any(member.endswith("/data.pkl") for member in archive.namelist()) else None
    except (OSError, zipfile.BadZipFile, ValueError, NotImplementedError):
        return None
