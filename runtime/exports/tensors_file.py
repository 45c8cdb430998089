"""Named arrays in the safetensors format, without the safetensors library: a loaded program needs NumPy only.

The format: eight bytes with the length of the header, the header (JSON: dtype, shape and offsets of each array), then the arrays. Source:
the format description of the safetensors library.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np

from adjit.ir.types import bfloat16

_NAMES = {"f2": "F16", "f4": "F32", "f8": "F64", "b1": "BOOL", "i1": "I8", "i2": "I16", "i4": "I32", "i8": "I64", "u1": "U8", "u2": "U16",
          "u4": "U32", "u8": "U64", "V2": "BF16"}
_DTYPES = {name: np.dtype(code) for code, name in _NAMES.items() if name != "BF16"}


def write_tensors(arrays: Mapping[str, np.ndarray]) -> bytes:
    """The content of a file with these arrays.

    >>> read_tensors(write_tensors({"w": np.arange(3.0)}))["w"]
    array([0., 1., 2.])
    """
    header: dict[str, Any] = {}
    parts: list[bytes] = []
    offset = 0
    for name, array in arrays.items():
        content = np.ascontiguousarray(array).tobytes()
        header[name] = {"dtype": _NAMES[array.dtype.str[1:]], "shape": list(array.shape), "data_offsets": [offset, offset + len(content)]}
        offset += len(content)
        parts.append(content)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return b"".join([len(text).to_bytes(8, "little"), text, *parts])


def read_tensors(content: bytes) -> dict[str, np.ndarray]:
    """The arrays, copied. Raises `ValueError` if the content has another format."""
    size = int.from_bytes(content[:8], "little")
    if len(content) < 8 or size > len(content) - 8:
        raise ValueError("the header of the arrays is truncated")
    header = json.loads(content[8:8 + size])
    data = memoryview(content)[8 + size:]
    arrays = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        dtype = bfloat16() if entry["dtype"] == "BF16" else _DTYPES.get(entry["dtype"])
        shape, (begin, end) = entry["shape"], entry["data_offsets"]
        if dtype is None or not all(type(size) is int and size >= 0 for size in shape):
            raise ValueError(f"the array {name!r} has an unknown dtype")
        if not 0 <= begin <= end <= len(data) or end - begin != prod(shape) * dtype.itemsize:
            raise ValueError(f"the array {name!r} has offsets outside of the file")
        arrays[name] = np.frombuffer(data[begin:end], dtype).reshape(shape).copy()
    return arrays
