"""The backends that this machine has, to parametrise tests with."""

from adjit.runtime.native_code import native_is_supported

COMPILING = [*["native"] * native_is_supported(), "numba"]
BACKENDS = [*COMPILING, "interpret"]
