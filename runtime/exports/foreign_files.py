"""Detection of files of other libraries, such as files of weights, that users pass to `load`, and advice on how to read them."""

from __future__ import annotations

import io
import zipfile
from typing import NamedTuple


class ForeignFile(NamedTuple):
    """A kind of file, and the remedy for the error message."""

    what: str
    remedy: str


_STATE = "load_state_dict(...) of the module takes it"
_WEIGHTS = ForeignFile("a file of tensors (safetensors)", f"read it with adjit.nn.load_state(path): {_STATE}")
_ARRAYS = ForeignFile("NumPy's arrays (.npz)", f"read it with dict(numpy.load(path)): {_STATE}")
_ARRAY = ForeignFile("an array of NumPy's (.npy)", "read it with numpy.load(path)")
_CHECKPOINT = ForeignFile("a checkpoint of PyTorch's", f"read it with adjit.load(path): {_STATE}")
_PICKLE = ForeignFile("a pickle, as PyTorch and joblib write them",
                      "read it with the library that wrote it: torch.load(path) or pickle.load")
_LIBRARY = ForeignFile("a library or an object file, as export writes it for C",
                     "link it, or load it with ctypes.CDLL; for adjit.load, export to a file with the suffix .adjit")


def describe_file(content: bytes) -> ForeignFile | None:
    """The kind of file with this content; None for unknown content.

    >>> describe_file(b"\\x93NUMPY\\x01\\x00").what
    "an array of NumPy's (.npy)"
    """
    if content.startswith(b"\x93NUMPY"):
        return _ARRAY
    if content.startswith(b"\x7fELF"):
        return _LIBRARY
    if content[:1] == b"\x80" and content[1:2] in b"\x02\x03\x04\x05" and content.endswith(b"."):
        return _PICKLE
    size = int.from_bytes(content[:8], "little")
    if content[8:9] == b"{" and 2 <= size <= len(content) - 8 and content[8:8 + size].rstrip().endswith(b"}"):
        return _WEIGHTS
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            names = archive.namelist()
    except Exception:       # zipfile raises many kinds of errors for damaged archives
        return None
    if any(name.endswith(("/data.pkl", "/version")) for name in names):
        return _CHECKPOINT
    return _ARRAYS if names and all(name.endswith(".npy") for name in names) else None
