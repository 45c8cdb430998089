"""Rotations in space by traced numbers, as `scipy.spatial.transform.Rotation` has them."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from adjit.ir.errors import ShapeError, UnsupportedError
from adjit.scipy.mirror import scipys
from adjit.tracer.array import as_traced
from adjit.tracer.array_wrapper import HoldsTraced
from adjit.tracer.trees import NAMESPACE, optree
from adjit.tracer.user_location import find_user_location

MAKERS = ("from_quat", "from_rotvec", "from_euler", "from_matrix", "from_mrp", "from_davenport")
METHODS = ("apply", "__mul__")
"""Methods of SciPy's rotations of plain numbers that take traced ones."""


class Rotation(HoldsTraced):
    """Equivalent of `scipy.spatial.transform.Rotation`: unit quaternions [..., 4], the real part last.

    >>> import numpy as np
    >>> import adjit as aj
    >>> from scipy.spatial.transform import Rotation
    >>> aj.jacobian(lambda r: Rotation.from_rotvec(r).apply(np.array([1.0, 0.0, 0.0])))(np.zeros(3))
    array([[ 0.,  0.,  0.],
           [ 0.,  0.,  1.],
           [ 0., -1.,  0.]])
    """

    def __init__(self, quat: Any):
        self._quat = quat

    @property       # type: ignore[misc]
    def __class__(self) -> type:        # `isinstance` reads it
        return scipys("spatial.transform").Rotation     # type: ignore[no-any-return]

    # -- made

    @staticmethod
    def from_quat(quat: Any, *, scalar_first: bool = False) -> Rotation:
        quat = _numbers(quat, 4)
        return Rotation(_normalized(np.roll(quat, -1, axis=-1) if scalar_first else quat))

    @staticmethod
    def from_rotvec(rotvec: Any, degrees: bool = False) -> Rotation:
        rotvec = _numbers(rotvec, 3) * (math.pi / 180.0 if degrees else 1.0)
        squared = np.sum(rotvec * rotvec, axis=-1, keepdims=True)
        small = squared <= 1e-6
        angle = np.sqrt(np.where(small, 1.0, squared))
        scale = np.where(small, 0.5 - squared / 48.0 + squared ** 2 / 3840.0, np.sin(0.5 * angle) / angle)
        real = np.where(small, 1.0 - squared / 8.0 + squared ** 2 / 384.0, np.cos(0.5 * angle))
        return Rotation(_normalized(np.concatenate([scale * rotvec, real], axis=-1)))

    @staticmethod
    def from_euler(seq: str, angles: Any, degrees: bool = False) -> Rotation:
        _check_axes(seq, (1, 2, 3))
        angles = as_traced(angles) * (math.pi / 180.0 if degrees else 1.0)
        if len(seq) == 1 and (angles.ndim < 2 or angles.shape[-1] != 1):
            angles = angles[..., None]
        if angles.ndim < 1 or angles.shape[-1] != len(seq):
            raise ShapeError(f"Expected `angles` to have shape (..., {len(seq)}), got {angles.shape}.", find_user_location())
        found: Any = None
        for number, axis in enumerate(seq.lower()):
            half = 0.5 * angles[..., number]
            parts = [np.sin(half) if axis == each else np.zeros(half.shape) for each in "xyz"]
            turn = np.stack([*parts, np.cos(half)], axis=-1)
            found = turn if found is None else _product(found, turn) if seq.isupper() else _product(turn, found)
        return Rotation(_normalized(found))

    @staticmethod
    def from_mrp(mrp: Any) -> Rotation:
        mrp = _numbers(mrp, 3)
        more = 1.0 + np.sum(mrp * mrp, axis=-1, keepdims=True)
        return Rotation(_normalized(np.concatenate([2.0 * mrp / more, (2.0 - more) / more], axis=-1)))

    @staticmethod
    def from_matrix(matrix: Any, **options: Any) -> Rotation:
        raise UnsupportedError("Rotation.from_matrix of a traced matrix, which SciPy replaces by the nearest rotation",
                               find_user_location(), hint="use the matrix itself: M @ v")

    @staticmethod
    def from_davenport(*args: Any, **options: Any) -> Rotation:
        raise UnsupportedError("Rotation.from_davenport of traced numbers", find_user_location(),
                               hint="from_rotvec, from_quat and from_euler have rules")

    # -- read

    @property
    def single(self) -> bool:
        return bool(self._quat.ndim == 1)

    @property
    def shape(self) -> tuple[int, ...]:
        return self._quat.shape[:-1]        # type: ignore[no-any-return]

    def __len__(self) -> int:
        if self.single:
            raise TypeError("Single rotation has no len().")
        return int(self._quat.shape[0])

    def __getitem__(self, index: Any) -> Rotation:
        if self.single:
            raise TypeError("Single rotation is not subscriptable.")
        return Rotation(self._quat[index])

    def as_quat(self, canonical: bool = False, *, scalar_first: bool = False) -> Any:
        quat = np.where(self._quat[..., 3:] < 0, -self._quat, self._quat) if canonical else self._quat
        return np.roll(quat, 1, axis=-1) if scalar_first else quat

    def as_matrix(self) -> Any:
        x, y, z, w = (self._quat[..., number] for number in range(4))
        rows = ((x * x - y * y - z * z + w * w, 2 * (x * y - z * w), 2 * (x * z + y * w)),
                (2 * (x * y + z * w), -x * x + y * y - z * z + w * w, 2 * (y * z - x * w)),
                (2 * (x * z - y * w), 2 * (y * z + x * w), -x * x - y * y + z * z + w * w))
        return np.stack([np.stack(row, axis=-1) for row in rows], axis=-2)

    def as_rotvec(self, degrees: bool = False) -> Any:
        quat = self.as_quat(canonical=True)
        length = _length(quat[..., :3])
        angle = 2.0 * np.arctan2(length, quat[..., 3])
        small = angle <= 1e-3
        scale = np.where(small, 2.0 + angle ** 2 / 12.0 + 7.0 * angle ** 4 / 2880.0, angle / np.where(small, 1.0, np.sin(0.5 * angle)))
        return scale[..., None] * quat[..., :3] * (180.0 / math.pi if degrees else 1.0)

    def as_euler(self, seq: str, degrees: bool = False, **options: Any) -> Any:
        _check_axes(seq, (3,))
        intrinsic = seq.isupper()
        i, j, k = ("xyz".index(axis) for axis in (seq.lower()[::-1] if intrinsic else seq.lower()))
        same = i == k
        k = 3 - i - j if same else k
        sign = (i - j) * (j - k) * (k - i) // 2
        q = [self._quat[..., number] for number in range(4)]
        a, b, c, d = (q[3], q[i], q[j], q[k] * sign) if same else (q[3] - q[j], q[i] + q[k] * sign, q[j] + q[3], q[k] * sign - q[i])
        second = 2.0 * np.arctan2(np.hypot(c, d), np.hypot(a, b))
        total, difference = np.arctan2(b, a), np.arctan2(d, c)
        at_zero, at_turn = np.abs(second) <= 1e-7, np.abs(second - math.pi) <= 1e-7
        locked = at_zero | at_turn
        first, third = (total - difference, total + difference) if not intrinsic else (total + difference, total - difference)
        one_angle = np.where(at_zero, 2.0 * total, 2.0 * difference * (1.0 if intrinsic else -1.0))
        first, third = np.where(locked, one_angle, first), np.where(locked, 0.0, third)
        if not same:
            first, third = (first * sign, third) if intrinsic else (first, third * sign)
            second = second - math.pi / 2.0
        found = np.stack([first, second, third], axis=-1)
        found = np.where(found < -math.pi, found + 2.0 * math.pi, np.where(found > math.pi, found - 2.0 * math.pi, found))
        return found * (180.0 / math.pi if degrees else 1.0)

    def as_mrp(self) -> Any:
        quat = self.as_quat(canonical=True)
        return quat[..., :3] / (1.0 + quat[..., 3:])

    def magnitude(self) -> Any:
        return 2.0 * np.arctan2(_length(self._quat[..., :3]), np.abs(self._quat[..., 3]))

    # -- used

    def inv(self) -> Rotation:
        return Rotation(self._quat * np.array([-1.0, -1.0, -1.0, 1.0]))

    def apply(self, vectors: Any, inverse: bool = False) -> Any:
        matrix = self.as_matrix()
        return np.einsum("...kj,...k->...j" if inverse else "...jk,...k->...j", matrix, _numbers(vectors, 3))

    def __mul__(self, other: Any) -> Rotation:
        return Rotation(_normalized(_product(self._quat, around(other)._quat)))

    def __rmul__(self, other: Any) -> Rotation:
        return around(other) * self

    def __pow__(self, n: float, modulus: None = None) -> Rotation:
        return Rotation.from_rotvec(n * self.as_rotvec())

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("_") and hasattr(scipys("spatial.transform").Rotation, name):
            raise UnsupportedError(f"{name} of a rotation by traced numbers", find_user_location(),
                                   hint="it has apply, inv, products and powers, and is made of and given as vectors, quaternions, angles")
        raise AttributeError(f"a rotation by traced numbers has no attribute {name!r}")


def _of_elements(_: None, children: Any) -> Any:
    """The rotation of these quaternions, which is SciPy's where they are numbers, as results are."""
    quat, = children
    is_known = isinstance(quat, np.ndarray) and quat.shape[-1:] == (4,)
    return scipys("spatial.transform").Rotation.from_quat(quat) if is_known else Rotation(quat)


def _elements(rotation: Any) -> tuple[tuple[Any, ...], None, tuple[str, ...]]:
    return (rotation._quat,), None, ("quat",)


optree.register_pytree_node(Rotation, _elements, _of_elements,        # type: ignore[arg-type]
                            path_entry_type=optree.GetAttrEntry, namespace=NAMESPACE)


def around(rotation: Any) -> Rotation:
    """A rotation of SciPy's, of plain numbers, as one that takes traced ones."""
    return rotation if type(rotation) is Rotation else Rotation(as_traced(rotation.as_quat()))


def _numbers(x: Any, count: int) -> Any:
    x = as_traced(x)
    if x.ndim < 1 or x.shape[-1] != count:
        raise ShapeError(f"expected an array of shape (..., {count}), got {x.shape}", find_user_location())
    return x.astype(np.float64, copy=False)


def _check_axes(seq: str, counts: tuple[int, ...]) -> None:
    if len(seq) not in counts or not (seq.isupper() or seq.islower()) or not set(seq.lower()) <= set("xyz"):
        raise ValueError(f"Expected axes from `seq` to be from ['x', 'y', 'z'] or ['X', 'Y', 'Z'], got {seq}")
    if any(a == b for a, b in itertools.pairwise(seq)):
        raise ValueError(f"Expected consecutive axes to be different, got {seq}")


def _length(x: Any) -> Any:
    """Length of vectors, whose derivative at 0 is 0."""
    squared = np.sum(x * x, axis=-1)
    return np.where(squared == 0, 0.0, np.sqrt(np.where(squared == 0, 1.0, squared)))


def _normalized(quat: Any) -> Any:
    return quat / np.sqrt(np.sum(quat * quat, axis=-1, keepdims=True))


def _product(p: Any, q: Any) -> Any:
    (a, b, c, d), (e, f, g, h) = ([x[..., number] for number in range(4)] for x in (p, q))
    return np.stack([d * e + h * a + b * g - c * f, d * f + h * b + c * e - a * g, d * g + h * c + a * f - b * e,
                     d * h - a * e - b * f - c * g], axis=-1)
