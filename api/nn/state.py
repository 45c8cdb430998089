"""The state of modules: written into them as a whole or not at all, and kept in files of the safetensors format."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from adjit.eager.modes import no_grad
from adjit.eager.tensor import Tensor, as_tensor, tensor
from adjit.ir.errors import DTypeError, StateError
from adjit.tracer.source import find_user_location


class KeysThatDiffer(NamedTuple):
    """The keys that a module has and a state lacks, and those that the module does not know."""

    missing_keys: list[str]
    unexpected_keys: list[str]


def load_into(own: Mapping[str, Tensor], state: Mapping[str, Any], strict: bool, name: str) -> KeysThatDiffer:
    """Write a state into the tensors `own`, in place; everything is checked before the first is written."""
    if not isinstance(state, Mapping):
        raise StateError(f"a state is a dict of tensors by name, got a {type(state).__name__}", find_user_location())
    differ = KeysThatDiffer([key for key in own if key not in state], [key for key in state if key not in own])
    problems = []
    if strict:
        problems += [f"missing: {', '.join(differ.missing_keys)}"] if differ.missing_keys else []
        problems += [f"not expected: {', '.join(map(str, differ.unexpected_keys))}"] if differ.unexpected_keys else []
    problems += [problem for key, target in own.items() if key in state and (problem := _misfit(key, target, state[key]))]
    if problems:
        raise StateError("\n    ".join([f"the state does not fit {name}; nothing was loaded", *problems]), find_user_location(),
                         hint="strict=False ignores missing keys and keys that are not expected" if strict and any(differ) else None)
    with no_grad():
        for key, target in own.items():
            if key in state:
                target.copy_(as_tensor(state[key]))
    return differ


def _misfit(key: str, target: Tensor, value: Any) -> str | None:
    if not isinstance(value, (Tensor, np.ndarray, np.generic)):
        return f"{key}: a {type(value).__name__} in place of a tensor"
    if tuple(value.shape) != target.shape:
        return f"{key}: shape {tuple(value.shape)} in place of {target.shape}"
    if not np.can_cast(value.dtype, target.dtype, "same_kind"):
        return f"{key}: {value.dtype} cannot be converted to {target.dtype}"
    return None


def save_state(state: Any, path: str | os.PathLike[str], metadata: Mapping[str, str] | None = None) -> None:
    """Write a module's `state_dict()`, or any dict of tensors by name, to a safetensors file.

    `state` is that dict, or an object that has one. The file appears whole or not at all. Raises `StateError` for values that are not
    tensors, or without the package safetensors.

    >>> import tempfile
    >>> from adjit.nn import Linear
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_state(Linear(3, 2), f"{folder}/linear.safetensors")
    ...     {name: tensor.shape for name, tensor in load_state(f"{folder}/linear.safetensors").items()}
    {'bias': (2,), 'weight': (2, 3)}
    """
    tensors = state if isinstance(state, Mapping) else state.state_dict()
    arrays = {}
    for name, value in tensors.items():
        if not isinstance(value, (Tensor, np.ndarray, np.generic)):
            raise StateError(f"{name} is a {type(value).__name__}; a safetensors file holds tensors", find_user_location())
        arrays[str(name)] = np.ascontiguousarray(value.payload if isinstance(value, Tensor) else value).reshape(value.shape)
    content = _safetensors().numpy.save(arrays, dict(metadata) if metadata else None)
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


def load_state(path: str | os.PathLike[str]) -> dict[str, Tensor]:
    """The tensors of a safetensors file by name, for `module.load_state_dict`.

    Raises `StateError` for a file that is cut off, damaged or of another format, `DTypeError` for tensors of a dtype that adjit lacks,
    `FileNotFoundError` where there is no file.
    """
    safetensors = _safetensors()
    content = Path(path).read_bytes()
    try:
        arrays = safetensors.numpy.load(content)
    except KeyError as error:       # NumPy has no bfloat16 and the like
        raise DTypeError(f"{os.fspath(path)} holds tensors of dtype {error.args[0]}", find_user_location()) from error
    except (safetensors.SafetensorError, ValueError) as error:
        raise StateError(f"{os.fspath(path)} is no whole safetensors file: {error}", find_user_location()) from error
    return {name: tensor(array) for name, array in arrays.items()}


def _safetensors() -> Any:
    try:
        import safetensors.numpy
    except ImportError as error:
        raise StateError("files of tensors need the package safetensors, which is not installed", find_user_location(),
                         hint="install it: pip install 'adjit[safetensors]'") from error
    return safetensors
