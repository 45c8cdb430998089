"""State of modules: loaded as a whole or not at all, and saved in files of the safetensors format."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from adjit.eager.modes import no_grad
from adjit.eager.tensor import Tensor, as_tensor, tensor
from adjit.ir.errors import DTypeError, StateError
from adjit.ir.types import dtype_kind
from adjit.nn.state_structure import STRUCTURE, decoded, encoded, is_flat
from adjit.runtime.exports.tensors_file import read_tensors
from adjit.tracer.user_location import find_user_location


class IncompatibleKeys(NamedTuple):
    """Keys that a module has and a state lacks, and keys that the module does not know."""

    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        if not any(self):
            return "<All keys matched successfully>"
        return f"IncompatibleKeys(missing_keys={self.missing_keys}, unexpected_keys={self.unexpected_keys})"


_COUNT = "num_batches_tracked"
"""Name of a count that older states of batch normalisations lack: it stays as it is."""


def load_into(own: Mapping[str, Tensor], state: Mapping[str, Any], strict: bool, name: str, extra: Collection[str] = ()
              ) -> IncompatibleKeys:
    """Write a state into the tensors `own`, in place; all of the state is checked before the first write. `extra` names what else it has.
    """
    if not isinstance(state, Mapping):
        raise StateError(f"a state is a dict of tensors by name, got a {type(state).__name__}", find_user_location())
    missing = [key for key in (*own, *extra) if key not in state and key.rpartition(".")[2] != _COUNT]
    differ = IncompatibleKeys(missing, [key for key in state if key not in own and key not in extra])
    problems = []
    if strict:
        problems += [f"missing: {', '.join(differ.missing_keys)} (Missing key(s) in state_dict)"] if differ.missing_keys else []
        unexpected = ", ".join(map(str, differ.unexpected_keys))
        problems += [f"not expected: {unexpected} (Unexpected key(s) in state_dict)"] if unexpected else []
    given: dict[str, Any] = {key: _content(state[key]) for key in own if key in state}
    problems += [problem for key, content in given.items() if (problem := _misfit(key, own[key], content))]
    if problems:
        what = f"the state does not fit {name}; nothing was loaded (Error(s) in loading state_dict for {name})"
        raise StateError("\n    ".join([what, *problems]), find_user_location(),
                         hint="strict=False ignores missing keys and keys that are not expected" if strict and any(differ) else None)
    with no_grad():
        for key, content in given.items():
            own[key].copy_(content if isinstance(content, Tensor) else as_tensor(content.astype(own[key].dtype, copy=False)))
    return differ


def _content(value: Any) -> Tensor | np.ndarray | str:
    """Return a tensor, or the array of another library's tensor; else a description of the problem."""
    if isinstance(value, Tensor):
        return value
    if not hasattr(value, "__array__") and not hasattr(value, "__dlpack__"):
        return f"a {type(value).__name__} in place of a tensor"
    value = value.detach() if hasattr(value, "detach") else value
    try:
        array = np.asarray(value) if hasattr(value, "__array__") else np.from_dlpack(value)
    except (TypeError, RuntimeError, ValueError, BufferError) as error:     # on a GPU, or of a dtype that NumPy lacks
        return f"a {type(value).__module__}.{type(value).__name__} that is no array in the memory of the CPU: {error}"
    return array if dtype_kind(array.dtype) in "biuf" else f"the dtype {array.dtype}"


def _misfit(key: str, target: Tensor, content: Any) -> str | None:
    if isinstance(content, str):
        return f"{key}: {content}"
    if tuple(content.shape) != target.shape:
        return f"size mismatch for {key}: shape {tuple(content.shape)} in place of {tuple(target.shape)}"
    if not np.can_cast(content.dtype, target.dtype, "same_kind"):
        return f"{key}: {content.dtype} cannot be converted to {target.dtype}"
    return None


def save_state(state: Any, path: str | os.PathLike[str], metadata: Mapping[str, str] | None = None) -> None:
    """Write a module's `state_dict()`, or a whole checkpoint, to a safetensors file.

    `state` is a dict of tensors by name, or of dicts, lists, numbers, strings and None, nested to any depth; objects that have a
    `state_dict()` are replaced by it. Nested tensors are in the file by joined names, such as `model.weight`, the rest as JSON among the
    metadata. The file appears whole or not at all. Raises `StateError` for other values, or without the package safetensors.

    >>> import tempfile
    >>> from adjit.nn import Linear
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_state({"model": Linear(3, 2), "epoch": 5}, f"{folder}/checkpoint.safetensors")
    ...     checkpoint = load_state(f"{folder}/checkpoint.safetensors")
    >>> checkpoint["epoch"], {name: tensor.shape for name, tensor in checkpoint["model"].items()}
    (5, {'weight': (2, 3), 'bias': (2,)})
    """
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"save_state(state, path): the path is a string or a path, got a {type(path).__name__}")
    content = state_content(state, metadata)
    file = Path(path)
    new = file.with_name(f".{file.name}.{os.getpid()}.new")
    try:
        with new.open("wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(new, file)
    finally:
        new.unlink(missing_ok=True)


def state_content(state: Any, metadata: Mapping[str, str] | None = None) -> bytes:
    """Return the content of a file that `save_state` writes."""
    arrays: dict[str, np.ndarray] = {}
    structure = encoded(state if isinstance(state, Mapping) or not hasattr(state, "state_dict") else state.state_dict(), arrays)
    entries = dict(metadata) if metadata else {}
    if not is_flat(structure):
        entries[STRUCTURE] = json.dumps(structure)
    return _safetensors().numpy.save(arrays, entries or None)       # type: ignore[no-any-return]



def load_state(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read a file that `save_state` wrote: the tensors by name, for `module.load_state_dict`, or the nested dicts of a checkpoint.

    Takes any safetensors file. Raises `StateError` for a file that is truncated, damaged or of another format, `DTypeError` for tensors of
    a dtype that adjit lacks, `FileNotFoundError` if there is no file.

    >>> import os, tempfile
    >>> from adjit.nn import Linear
    >>> path = os.path.join(tempfile.mkdtemp(), "layer.safetensors")
    >>> save_state(Linear(3, 2).state_dict(), path)
    >>> {name: tensor.shape for name, tensor in sorted(load_state(path).items())}
    {'bias': (2,), 'weight': (2, 3)}
    """
    _safetensors()          # a missing package is told of first
    return state_of(Path(path).read_bytes(), os.fspath(path))     # type: ignore[no-any-return]


def state_of(content: bytes, name: str) -> Any:
    """Return what `state_content` wrote; errors name the file `name`."""
    safetensors = _safetensors()
    try:
        arrays = _arrays(safetensors, content)
        header = json.loads(content[8:8 + int.from_bytes(content[:8], "little")])
    except KeyError as error:       # NumPy has no dtypes of 8 bits and the like
        raise DTypeError(f"{name} holds tensors of dtype {error.args[0]}", find_user_location()) from error
    except (safetensors.SafetensorError, ValueError) as error:
        raise StateError(f"{name} is no whole safetensors file: {error}", find_user_location()) from error
    tensors = {name: tensor(array) for name, array in arrays.items()}
    structure = header.get("__metadata__", {}).get(STRUCTURE)
    return tensors if structure is None else decoded(json.loads(structure), tensors)


def _arrays(safetensors: Any, content: bytes) -> dict[str, np.ndarray]:
    try:
        return safetensors.numpy.load(content)      # type: ignore[no-any-return]
    except KeyError as error:       # the format is checked before; safetensors gives no arrays of bfloat16
        if error.args[0] != "BF16":
            raise
        return read_tensors(content)


def _safetensors() -> Any:
    try:
        import safetensors.numpy
    except ImportError as error:
        raise StateError("files of tensors need the package safetensors, which is not installed", find_user_location(),
                         hint="install it: pip install 'adjit[safetensors]'") from error
    return safetensors
