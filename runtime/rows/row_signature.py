"""Signatures of calls for which one program serves any number of rows."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from adjit.eager.tensor import Tensor, new_tensor
from adjit.ir.dataclass import dataclass
from adjit.ir.errors import Location
from adjit.ir.ops.panels import MOST_ROWS
from adjit.ir.row_number import Expression
from adjit.passes.panels.row_axes import RowsMixed
from adjit.tracer.array_wrapper import ArrayWrapper
from adjit.tracer.signature import CallSignature, StaticArgument, flatten_call
from adjit.tracer.trees import unflatten

if TYPE_CHECKING:
    from adjit.runtime.program import Program


class _AnyRows(int):
    """Length that stands for any number of rows in the shapes of a signature."""

    def __str__(self) -> str:
        return "rows"

    __repr__ = __str__


ANY_ROWS = _AnyRows(-1)


@dataclass(frozen=True, slots=True)
class SizedPrograms:
    """Programs of one function for some numbers of rows, with the arrays of their parameters, and the numbers that Python computed from how
    many rows there are."""

    sizes: tuple[int, ...]
    programs: tuple[tuple[Program, tuple[np.ndarray, ...]], ...]
    numbers: tuple[Expression, ...]


class RowCalls:
    """Calls of a function, of which the arguments in `names` are arrays of rows. `refused` says of signatures why there is a program for
    each number of rows, and where."""

    def __init__(self, names: frozenset[str]) -> None:
        self.names = names
        self.refused: dict[Hashable, tuple[str, Location | None]] = {}
        self._needs: dict[Hashable, tuple[int, Collection[int], str]] = {}
        self._leaves: dict[Hashable, tuple[int, ...]] = {}

    def general(self, signature: CallSignature) -> CallSignature | None:
        """The signature of calls with any number of rows; None if there is no program for them."""
        found = self._general(signature)
        return None if found is None or found.key in self.refused or not self._is_served(found) else found

    def serves(self, signature: CallSignature, program: Program) -> bool:
        """Note that calls of a general signature have one program, from its least number of rows on, if the leaves that it takes in order
        are C-contiguous. True if this call has."""
        self._needs[signature.key] = program.least_rows, program.trace.in_order, program.about_few_rows
        return self._is_served(signature)

    def _is_served(self, signature: CallSignature) -> bool:
        least, in_order, _ = self._needs.get(signature.key, (1, (), ""))
        return least <= signature.rows <= MOST_ROWS and all(signature.leaves[index].flags.c_contiguous for index in in_order)

    def _general(self, signature: CallSignature) -> CallSignature | None:
        """The signature of calls with any number of rows; None if the arrays of rows have none, or not the same number."""
        leaves = self._row_leaves(signature)
        lengths = {signature.leaf_keys[index][1][0] for index in leaves}
        if len(lengths) != 1:
            return None
        (rows,) = lengths
        keys = list(signature.leaf_keys)
        for index in leaves:
            dtype, shape, *rest = keys[index]
            keys[index] = (dtype, (ANY_ROWS, *shape[1:]), *rest)
        leaf_keys = tuple(keys)
        key = (signature.key[0], leaf_keys, *signature.key[2:])
        return replace(signature, key=key, leaf_keys=leaf_keys, rows=rows, exact=signature)

    def refuse(self, signature: CallSignature, reason: str, location: Location | None) -> None:
        """Note why calls of a general signature have a program for each number of rows."""
        self.refused[signature.key] = reason, location

    def why_refused(self, signature: CallSignature) -> str:
        """Why calls of a signature have a program for each number of rows, as a sentence; "" if that is not known."""
        general = self._general(signature)
        if general is None:
            return ""
        found = self.refused.get(general.key)
        if found is None:
            least, _, why = self._needs.get(general.key, (1, (), ""))
            several = f"a program for each number of rows of {', '.join(sorted(self.names))}"
            return f"{several} below {least}{why}: from there on one program serves all" if general.rows < least else ""
        reason, location = found
        where = "" if location is None else f", at {location.describe()}"
        return f"a program for each number of rows of {', '.join(sorted(self.names))}, because {reason}{where}"

    def forget(self) -> None:
        """Forget why signatures were refused."""
        self.refused.clear()

    def _row_leaves(self, signature: CallSignature) -> tuple[int, ...]:
        key = signature.tree, signature.positional
        known = self._leaves.get(key)
        if known is None:
            paths = signature.leaf_paths()
            known = self._leaves[key] = tuple(index for index, path in enumerate(paths)
                                              if path.partition("[")[0].partition(".")[0] in self.names)
        return tuple(index for index in known if signature.is_traced(index) and len(signature.leaf_keys[index]) > 1
                     and signature.leaf_keys[index][1])


def row_leaves(signature: CallSignature) -> list[int]:
    """Indices of the leaves of a general signature that are arrays of rows."""
    return [index for index, key in enumerate(signature.leaf_keys) if key[0] not in ("static", "weak") and key[1][:1] == (ANY_ROWS,)]


def call_with_rows(signature: CallSignature, size: int, static: frozenset[str], context: object
                   ) -> tuple[Sequence[Any], Mapping[str, Any], CallSignature]:
    """The arguments of a call, with arrays of zeros of `size` rows, and their signature. Raises `RowsMixed` for a parameter of a module
    that has rows."""
    leaves = list(signature.all_leaves)
    for index in row_leaves(signature):
        dtype, shape = signature.leaf_keys[index][:2]
        zeros = np.zeros((size, *shape[1:]), dtype)
        if isinstance(leaves[index], ArrayWrapper):
            if type(leaves[index]) is not Tensor:
                raise RowsMixed(f"{signature.leaf_paths()[index]} is a {type(leaves[index]).__name__}, and no tensor")
            given, leaves[index] = leaves[index], new_tensor(zeros)
            leaves[index]._requires_grad = given._requires_grad
            leaves[index]._grad = None if given._grad is None else new_tensor(np.zeros(zeros.shape, given._grad.dtype))
        else:
            leaves[index] = zeros
    args, kwargs = unflatten(signature.tree, leaves)
    args = tuple(arg.value if isinstance(arg, StaticArgument) else arg for arg in args)
    kwargs = {name: arg.value if isinstance(arg, StaticArgument) else arg for name, arg in kwargs.items()}
    return args, kwargs, flatten_call(signature.function, args, kwargs, static, context)

