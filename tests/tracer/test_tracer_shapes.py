"""Functions about shapes, joining, products, creation: traced they give what NumPy gives."""

from __future__ import annotations

import numpy as np
import pytest
from support.each import parametrize_within
from support.tracing import assert_as_numpy, assert_same, checked_trace, run_traced

from adjit import numpy as anp

DTYPES = [np.float32, np.float64, np.int32, np.int64, np.bool_]


def array(*shape, dtype=np.float64):
    values = np.random.default_rng(sum(shape)).uniform(-4, 4, shape)
    return (values > 0) if dtype is np.bool_ else values.astype(dtype)


X = array(2, 3, 4)
MOVES = {
    "reshape": lambda x: [
        np.reshape(x, (4, -1)),
        x.reshape(6, 4),
        x.reshape((-1,)),
        x.reshape(3, 2, -1, order="F"),
        np.reshape(x, -1, order="F"),
        x.reshape(-1, 3, 1, 2),
    ],
    "ravel": lambda x: [np.ravel(x), x.ravel(order="F"), x.flatten(), x.T.flatten(), x.flatten("F")],
    "transpose": lambda x: [
        x.T,
        x.mT,
        np.transpose(x),
        x.transpose(2, 0, 1),
        x.transpose((0, 2, 1)),
        np.transpose(x, (1, 0, -1)),
        x.transpose(None),
    ],
    "swapaxes": lambda x: [np.swapaxes(x, 0, -1), x.swapaxes(1, 2)],
    "moveaxis": lambda x: [np.moveaxis(x, 0, -1), np.moveaxis(x, (0, 1), (-1, 0)), np.rollaxis(x, 2), np.rollaxis(x, 0, 3)],
    "expand": lambda x: [
        np.expand_dims(x, 0),
        np.expand_dims(x, (0, -1)),
        np.squeeze(x[:1]),
        x[:1].squeeze(0),
        np.squeeze(x[..., None], axis=-1),
    ],
    "broadcast": lambda x: [
        np.broadcast_to(x, (5, 2, 3, 4)),
        *np.broadcast_arrays(x, x[0, 0], x[:, :, :1]),
        np.broadcast_to(x[0, 0, 0], (2,)),
    ],
    "at_least": lambda x: [
        np.atleast_1d(x[0, 0, 0]),
        np.atleast_2d(x[0, 0]),
        np.atleast_3d(x[0]),
        np.atleast_3d(x[0, 0]),
        *np.atleast_1d(x, x[0, 0, 0]),
    ],
    "flip": lambda x: [
        np.flip(x),
        np.flip(x, 0),
        np.flip(x, (0, -1)),
        np.fliplr(x),
        np.flipud(x),
        *(np.rot90(x, k) for k in range(-1, 4)),
        np.rot90(x, 1, (2, 1)),
    ],
    "concatenate": lambda x: [
        np.concatenate([x, x[:, :1]], axis=1),
        np.concatenate([x, x], axis=None),
        np.concatenate((x, x.astype(np.float64))),
        np.concatenate([x]),
    ],
    "stack": lambda x: [
        np.stack([x, x]),
        np.stack([x, x], -1),
        np.vstack([x[0, 0], x[0]]),
        np.hstack([x, x]),
        np.hstack([x[0, 0], x[0, 0]]),
        np.dstack([x[0], x[1]]),
        np.column_stack([x[0, 0], x[1, 1], x[0, :1].T]),
        np.append(x, 1),
        np.append(x, x, axis=0),
        np.vstack((x, x)),
    ],
    "split": lambda x: [
        *np.split(x, 2),
        *np.split(x, [1, 3], axis=-1),
        *np.array_split(x, 3, 2),
        *np.hsplit(x, 3),
        *np.vsplit(x, 2),
        *np.split(x, (1,), 1),
    ],
    "repeat": lambda x: [
        np.repeat(x, 2),
        np.repeat(x, 3, axis=1),
        np.repeat(x, [1, 0, 2], axis=1),
        x.repeat([2], axis=0),
        np.repeat(x[0, 0, 0], 3),
    ],
    "tile": lambda x: [np.tile(x, 2), np.tile(x, (2, 1, 3)), np.tile(x[0], (2, 2, 1, 1)), np.tile(x[0, 0, 0], 3), np.tile(x, ())],
    "pad": lambda x: [
        np.pad(x, 1),
        np.pad(x, ((1, 0), (0, 2), (1, 1)), constant_values=3),
        np.pad(x, (1, 2), mode="edge"),
        np.pad(x, 1, mode="reflect"),
        np.pad(x, 1, "symmetric"),
        np.pad(x, ((0, 0), (1, 1), (3, 3)), mode="wrap"),
        np.pad(x, ((1, 1), (0, 1), (2, 0)), constant_values=((1, 2), (3, 4), (5, 6))),
    ],
    "roll": lambda x: [
        np.roll(x, 1),
        np.roll(x, -2, axis=1),
        np.roll(x, (1, 2), axis=(0, 2)),
        np.roll(x, 5, axis=(1, 2)),
        np.roll(x[:0], 1, 0),
    ],
    "triangles": lambda x: [np.tril(x), np.triu(x, 1), np.tril(x, -1), np.triu(x, -2), np.tril(x[0, 0]), np.triu(x.T, 7)],
    "diagonals": lambda x: [
        np.diag(x[0]),
        np.diag(x[0, 0]),
        np.diag(x[0, 0], 2),
        np.diag(x[0, 0], -1),
        np.diag(x[0], 1),
        np.diag(x[0], 9),
        np.diagonal(x),
        np.diagonal(x, 1, 1, 2),
        np.diagonal(x, -1, 2, 0),
        np.trace(x),
        x.trace(1, 0, 2),
        np.diagflat(x[0, :2]),
        x.diagonal(),
    ],
    "grids": lambda x: [
        *np.meshgrid(x[0, 0], x[0, :, 0]),
        *np.meshgrid(x[0, 0], x[0, :, 0], x[:, 0, 0], indexing="ij"),
        *np.meshgrid(x[0, 0], x[0, 1], sparse=True),
    ],
    "like": lambda x: [
        np.zeros_like(x),
        np.ones_like(x, dtype=np.int32),
        np.full_like(x, 2),
        np.zeros_like(x, shape=(2, 2)),
        np.full_like(x, x[0, 0, 0]),
        np.copy(x),
        x.copy(),
    ],
    "kron": lambda x: [np.kron(x[0], x[1, :2]), np.kron(x[0, 0], x)],
    "astype": lambda x: [
        x.astype(np.float32),
        x.astype(int),
        x.astype(bool),
        x.astype("f8"),
        x.astype(np.uint8) if x.dtype.kind != "f" else x,
    ],
}


@parametrize_within("dtype", DTYPES)
@pytest.mark.parametrize("name", MOVES)
def test_movement(name, dtype):
    assert_as_numpy(MOVES[name], array(2, 3, 4, dtype=dtype))


def test_what_is_known_while_tracing():
    def fun(x):
        facts = (
            x.shape,
            x.ndim,
            x.size,
            x.dtype,
            x.itemsize,
            x.nbytes,
            len(x),
            np.shape(x),
            np.ndim(x),
            np.size(x),
            np.size(x, 1),
            np.iscomplexobj(x),
            np.isrealobj(x),
            np.result_type(x, np.float32),
            np.can_cast(x, np.float32),
            x.real is x if not isinstance(x, np.ndarray) else True,
        )
        assert facts == ((2, 3, 4), 3, 24, np.float64, 8, 192, 2, (2, 3, 4), 3, 24, 3, False, True, np.float64, False, True)
        return x

    run_traced(fun, X)


def test_empty_and_zero_dimensional():
    def fun(x, s):
        return [
            x.reshape(0, 5),
            x.T,
            x.sum(0),
            np.concatenate([x, x]),
            x @ x.T,
            np.stack([s, s]),
            s.reshape(1, 1),
            s.T,
            s.ravel(),
            np.squeeze(s),
            s.astype(int),
            x[:, 0],
            np.transpose(s),
            np.atleast_2d(s),
            np.tril(x),
            np.pad(x, 1),
            np.repeat(x, 2),
            np.roll(s, 1),
            s + x,
            np.broadcast_to(s, (0, 2)),
            np.cumsum(s),
        ]

    assert_as_numpy(fun, np.zeros((0, 3), np.float32), np.array(2.5, np.float32))


def test_wrong_shapes():
    for fun, message in [
        (lambda x: x.reshape(5, 5), r"an array of shape \(2, 3, 4\) \(24 elements\) cannot get the shape \(5, 5\)"),
        (lambda x: np.squeeze(x, 0), "is not of size 1"),
        (lambda x: np.broadcast_to(x, (2, 3)), "cannot be broadcast to"),
        (lambda x: np.concatenate([x, x[:, :1]]), "have to agree in all other axes"),
        (lambda x: np.stack([x, x[0]]), "same shape"),
        (lambda x: np.split(x, 2, axis=1), "does not divide into 2 equal parts"),
        (lambda x: x + x[0, 0, :3], r"add: the shapes of float64\[2, 3, 4\] and float64\[3\] cannot be broadcast together"),
    ]:
        with pytest.raises(ValueError, match=message) as caught:
            run_traced(fun, X)
        assert "test_tracer_shapes.py" in str(caught.value)
    with pytest.raises(IndexError, match="axis 3 is out of bounds for array of dimension 3"):
        run_traced(lambda x: x.sum(axis=3), X)


# -- products


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((3,), (3,)),
        ((2, 3), (3,)),
        ((3,), (3, 4)),
        ((2, 3), (3, 4)),
        ((5, 2, 3), (3, 4)),
        ((2, 3), (5, 3, 4)),
        ((5, 2, 3), (5, 3, 4)),
        ((7, 1, 2, 3), (5, 3, 4)),
        ((5, 2, 3), (3,)),
        ((3,), (5, 3, 4)),
        ((0, 3), (3, 2)),
        ((2, 0), (0, 2)),
        ((2, 3, 2, 4), (4, 5)),
        ((1, 2, 3), (5, 3, 4)),
        ((4, 2, 3), (1, 3, 2)),
        ((2, 3), (1, 1, 3, 2)),
    ],
)
def test_matmul(a, b, dtype):
    assert_as_numpy(
        lambda x, y: [x @ y, np.matmul(x, y)], array(*a, dtype=dtype), array(*b, dtype=dtype), rtol=1e-5 if dtype is np.float32 else 1e-12
    )


def test_matmul_of_a_stack_with_one_matrix_is_one_product():
    trace = checked_trace(lambda x, w: x @ w, array(5, 2, 3), array(3, 4))
    (product,) = [op for op in trace.graph.ops if op.name == "matmul"]
    assert [value.type.shape for value in product.operands] == [(10, 3), (3, 4)]


def test_matmul_names_both_shapes_and_both_lines():
    def model(x, w):
        hidden = np.tanh(x)
        weights = w * 2
        return hidden @ weights

    with pytest.raises(ValueError, match=r"the shapes \(2, 3\) and \(4, 5\) do not fit: 3 columns, 4 rows "
                       r"\(mat1 and mat2 shapes cannot be multiplied \(2x3 and 4x5\)\)") as caught:
        run_traced(model, array(2, 3), array(4, 5))
    for line in ("hidden = np.tanh(x)", "weights = w * 2", "return hidden @ weights"):
        assert line in str(caught.value)
    with pytest.raises(ValueError, match="stacks"):
        run_traced(lambda x, w: x @ w, array(2, 3, 4), array(3, 4, 5))
    with pytest.raises(ValueError, match="scalar operand"):
        run_traced(lambda x: x @ np.float64(2), array(2, 3))


def test_other_products():
    x, y, v = array(2, 3, 4), array(4, 3), array(4)
    assert_as_numpy(
        lambda x, y, v: [
            np.dot(v, v),
            np.dot(x, v),
            np.dot(x, y),
            x.dot(y),
            np.dot(2.0, v),
            np.dot(x, array(5, 4, 2)),
            np.inner(x, v),
            np.inner(x, x[0]),
            np.inner(v, v),
            np.inner(v, 2.0),
            np.outer(v, y),
            np.vdot(x, x),
            np.tensordot(x, y, 1),
            np.tensordot(x, y, axes=((1, 2), (1, 0))),
            np.tensordot(x, y, axes=(-1, 0)),
            np.tensordot(v, v, 0),
            np.tensordot(x, x, 3),
        ],
        x,
        y,
        v,
    )
    if hasattr(np, "vecdot"):
        assert_as_numpy(lambda x, v: [np.vecdot(x, v), np.vecdot(v, v)], x, v)
    assert_as_numpy(
        lambda x, y: [np.dot(x, y), np.inner(x, x), np.tensordot(x, y, 1)],
        array(2, 3, dtype=np.int32),
        array(3, 2, dtype=np.float32),
        rtol=1e-5,
    )


EINSUMS = [
    ("ij,jk->ik", (2, 3), (3, 4)),
    ("ij,jk", (2, 3), (3, 4)),
    ("bij,bjk->bik", (5, 2, 3), (5, 3, 4)),
    ("ij,kj->ki", (2, 3), (4, 3)),
    ("i,i", (3,), (3,)),
    ("i,j->ij", (2,), (3,)),
    ("ij->ji", (2, 3)),
    ("ij->", (2, 3)),
    ("ij->j", (2, 3)),
    ("ii", (3, 3)),
    ("ii->i", (3, 3)),
    ("iij->j", (3, 3, 2)),
    ("iji->j", (3, 2, 3)),
    ("ij,ij->ij", (2, 3), (2, 3)),
    ("ij,ij->", (2, 3), (2, 3)),
    ("ijk,k->ij", (2, 3, 4), (4,)),
    ("bhqd,bhkd->bhqk", (2, 3, 4, 5), (2, 3, 6, 5)),
    ("...ij,...jk->...ik", (5, 2, 3), (5, 3, 4)),
    ("...ij,jk->...ik", (5, 2, 3), (3, 4)),
    ("...j,j", (2, 3), (3,)),
    ("i...->...", (2, 3)),
    ("...,...", (2, 3), (3,)),
    ("ij,jk,kl->il", (2, 3), (3, 4), (4, 5)),
    ("ij,jk,ik->", (2, 3), (3, 4), (2, 4)),
    ("ij,kl->", (2, 3), (4, 5)),
    ("ijk,jil->kl", (2, 3, 4), (3, 2, 5)),
    ("ab,bc,cd,de->ae", (2, 3), (3, 4), (4, 5), (5, 2)),
    ("i,i,i->i", (3,), (3,), (3,)),
    ("ba", (2, 3)),
    ("ii,ij->j", (3, 3), (3, 2)),
    ("...ij->...ji", (2, 3, 4)),
    ("ij,j->i", (0, 3), (3,)),
    ("ij,jk->ik", (2, 0), (0, 3)),
    ("ij,ij->j", (1, 3), (2, 3)),
]


@pytest.mark.parametrize("case", EINSUMS, ids=str)
def test_einsum(case):
    subscripts, *shapes = case
    arrays = [array(*shape) + i for i, shape in enumerate(shapes)]
    assert_as_numpy(lambda *arrays: np.einsum(subscripts, *arrays), *arrays, rtol=1e-12)
    integers = [x.astype(np.int32) for x in arrays]
    assert_as_numpy(lambda *arrays: np.einsum(subscripts, *arrays), *integers)


def test_einsum_other_forms():
    x, y = array(2, 3), array(3, 4)
    assert_as_numpy(
        lambda x, y: [
            np.einsum(x, [0, 1], y, [1, 2], [0, 2]),
            np.einsum(x, [0, 1], y, [1, 2]),
            np.einsum("ij, jk -> ik", x, y, optimize=True),
            np.einsum("ij,jk->ik", x, y.astype(np.float32), dtype=np.float64),
            np.einsum("ij,ij->i", x > 0, x > 1),
        ],
        x,
        y,
        rtol=1e-6,
    )


@pytest.mark.parametrize(
    ("subscripts", "message"),
    [
        ("ij,jk->il", "no valid subscript"),
        ("ij,jk->ii", "no valid subscript"),
        ("i,j,k", "names 3 operands, 2 were given"),
        ("ijk,jk", "do not fit an operand"),
        ("ij,ik", "label 'i' has the sizes 2 and 3"),
    ],
)
def test_wrong_einsums(subscripts, message):
    with pytest.raises(ValueError, match=message):
        run_traced(lambda x, y: np.einsum(subscripts, x, y), array(2, 3), array(3, 4))


# -- creation


def creations(xp):
    return [
        xp.zeros(3),
        xp.zeros((2, 3), np.float32),
        xp.ones((), int),
        xp.full((2, 2), 7),
        xp.full(2, 1.5),
        xp.full(2, 1.5, np.float32),
        xp.full(3, True),
        xp.full((2, 3), np.arange(3)),
        xp.arange(5),
        xp.arange(2, 9, 3),
        xp.arange(0.0, 1.0, 0.25),
        xp.arange(5, 0, -2),
        xp.arange(3, dtype=np.float32),
        xp.arange(3, 1),
        xp.linspace(0, 1, 5),
        xp.linspace(1.0, 3.0, 4, endpoint=False),
        xp.linspace(0, 10, 3, dtype=int),
        xp.linspace(2, 3, 1),
        xp.linspace([0.0, 1.0], [1.0, 3.0], 3),
        xp.linspace(0, 1, 0),
        xp.eye(3),
        xp.eye(2, 4, 1, dtype=np.float32),
        xp.eye(3, k=-1),
        xp.identity(2),
        xp.tri(3),
        xp.tri(2, 4, 1),
        xp.array([1, 2]),
        xp.array([[1.0], [2.0]]),
        xp.array(3, np.float32),
        xp.array([1, 2], ndmin=3),
        xp.asarray([True]),
        xp.asarray([1], dtype=float),
        xp.empty((2, 0)),
    ]


def test_creation():
    assert_same(run_traced(lambda: creations(anp)), creations(np))
    assert_same(creations(anp), creations(np))


def test_created_arrays_can_be_filled_with_traced_values():
    def fun(x):
        xp = np if type(x) is np.ndarray else anp
        y = xp.zeros((3, 2))
        for i, value in enumerate(x):
            y[i, i % 2] = value
        return (
            y,
            xp.array([x[0], 1.0, x[2]]),
            np.stack([x[0], x[1]]),
            xp.array([[x[0], 2], [3, x[1]]]),
            np.concatenate([x, [1, 2]]),
            xp.array(x),
        )

    assert_as_numpy(fun, np.arange(1.0, 4.0))
    assert_as_numpy(lambda x: (np if type(x) is np.ndarray else anp).full((2,), x[0]), np.arange(1.0, 4.0))


def test_the_namespace():
    assert {"sum", "einsum", "where", "zeros", "logsumexp", "float32", "pi", "matmul"} <= set(dir(anp))
    assert anp.busday_count is np.busday_count
    assert anp.float16 is np.float16
    with pytest.raises(AttributeError, match=r"adjit\.random\.normal"):
        _ = anp.random
