"""Backends that this machine has, to parametrise tests with."""

from adjit.runtime.native.code import native_is_supported

COMPILING = [*["native"] * native_is_supported(), "numba"]
BACKENDS = [*COMPILING, "interpret"]
