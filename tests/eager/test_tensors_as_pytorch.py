"""Dtypes of reductions, complex numbers beside others, arguments in PyTorch's order, and views, where NumPy's way is another one. Expected
values are those of PyTorch 2.14."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjit as aj

UNSIGNED = ["uint8", "uint16", "uint32", "uint64"]
DTYPES = ["bool", "int8", "int32", *UNSIGNED, "float16", "float32", "float64", "complex64", "complex128"]


@pytest.mark.parametrize("dtype", [*UNSIGNED, "bool", "int8", "int32"])
@pytest.mark.parametrize("compiled", [False, True])
def test_sums_of_integers_are_int64(dtype: str, compiled: bool) -> None:
    x = aj.tensor(np.array([[3, 2], [4, 7]]).astype(dtype))
    numbers = x.numpy().astype(np.int64)

    def reduce(x: Any) -> list[Any]:
        return [x.sum() - 100, x.prod(0), -x.cumsum(0), x.cumprod(1), x.nansum(), x.trace() - 100, aj.sum(x, 0) - 20,
                aj.einsum("ij->i", x), x.sum(dtype=aj.float32)]

    found = (aj.compile(reduce, backend="interpret") if compiled else reduce)(x)
    expected = [numbers.sum() - 100, numbers.prod(0), -numbers.cumsum(0), numbers.cumprod(1), numbers.sum(), np.trace(numbers) - 100,
                numbers.sum(0) - 20, numbers.sum(1), numbers.sum()]
    assert [str(one.dtype) for one in found] == ["int64"] * 8 + ["float32"]
    assert [one.tolist() for one in found] == [np.asarray(one).tolist() for one in expected]


def test_truth_of_bytes_is_a_byte() -> None:
    x = aj.tensor([[2, 0], [1, 1]], dtype="uint8")
    assert [(found.dtype, found.tolist()) for found in (x.any(), x.all(1), aj.any(x, 0), x.int().any())] == [
        (np.uint8, 1), (np.uint8, [0, 1]), (np.uint8, [1, 1]), (np.bool_, True)]


def test_squares_of_bools_are_integers_and_angles_of_integers_float32() -> None:
    assert aj.tensor([True, False]).square().dtype == np.int64
    assert [aj.tensor([-1, 2], dtype=dtype).angle().dtype for dtype in ("int8", "int32", "int64")] == [np.float32] * 3
    assert aj.tensor([-1, 2]).angle().tolist() == [pytest.approx(np.pi), 0.0]
    bytes_ = aj.tensor([1, 2], dtype="uint8")
    bytes_ += aj.tensor([255, 1])
    assert bytes_.tolist() == [0, 3]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shapes", [((2,), (2,)), ((2,), ()), ((), (2,)), ((), ())])
def test_complex64_beside_other_tensors(dtype: str, shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    z, x = aj.ones(*shapes[0], dtype="complex64") * (1 + 2j), aj.ones(*shapes[1]).to(getattr(aj, dtype))
    counts = bool(shapes[1]) or not shapes[0]       # without dimensions it does not count beside the other, but for its kind
    expected = np.complex128 if counts and dtype in ("complex128", "float64") else np.complex64
    found = [z + x, x * z, z / x, aj.where(x == x, z, x), z.pow(x)]
    assert [one.dtype for one in found] == [expected] * 5
    assert aj.result_type(z, x) == expected
    assert found[1].reshape(-1)[0].item() == 1 + 2j


def test_reductions_of_complex_numbers() -> None:
    z = aj.tensor([[1 + 2j, 3 - 1j], [0.5j, -2 + 0j]], requires_grad=True)
    array = z.detach().numpy().astype(np.complex128)
    found = z.mean(), z.mean(0), z.var(), z.std(1), z.norm(), z.norm(1), z.sigmoid()
    expected = (array.mean(), array.mean(0), array.var(ddof=1), array.std(1, ddof=1), np.linalg.norm(array), np.abs(array).sum(),
                1 / (1 + np.exp(-array)))
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == (np.complex64 if np.iscomplexobj(other) else np.float32)
        np.testing.assert_allclose(one.detach().numpy(), other, rtol=1e-6)
    z.norm().backward()
    np.testing.assert_allclose(z.grad.numpy(), array / np.linalg.norm(array), rtol=1e-6)
    assert aj.tensor([1 + 2j]).float_power(2).tolist() == [-3 + 4j]
    with pytest.raises(aj.errors.DTypeError, match="mean takes"):
        aj.tensor([1, 2]).mean()


@pytest.mark.parametrize("call", [
    lambda x: x.nan_to_num(5.0, 1.0, -1.0), lambda x: aj.nan_to_num(x, 5.0, 1.0, -1.0), lambda x: x.clone().nan_to_num_(5.0, 1.0, -1.0),
    lambda x: aj.nan_to_num(x, nan=5.0, neginf=-1.0, posinf=1.0), aj.compile(lambda x: x.nan_to_num(5.0, 1.0, -1.0))])
def test_nan_to_num_takes_the_number_first(call: Callable[[Any], Any]) -> None:
    assert call(aj.tensor([float("nan"), 2.0, float("inf"), -float("inf")])).tolist() == [5, 2, 1, -1]
    assert aj.nan_to_num(aj.tensor([float("nan")]), 0.0).tolist() == [0]


VIEWS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "unfold": (lambda x: x.unfold(1, 2, 2), lambda a: np.lib.stride_tricks.sliding_window_view(a, 2, 1, writeable=True)[:, ::2]),
    "unfold with a gap": (lambda x: x.unfold(0, 1, 3), lambda a: a[::3, :, None]),
    "unfold of one slice": (lambda x: x.unfold(-1, 4, 1), lambda a: a[:, None]),
    "unfold twice": (lambda x: x.t().unfold(0, 2, 2).unfold(1, 2, 2),
                     lambda a: np.lib.stride_tricks.sliding_window_view(a.T, (2, 2), writeable=True)[::2, ::2]),
    "atleast_3d": (lambda x: aj.atleast_3d(x), lambda a: a[..., None]),
    "atleast_2d": (lambda x: aj.atleast_2d(x[1]), lambda a: a[1][None]),
    "atleast_1d": (lambda x: aj.atleast_1d(x[1, 2]), lambda a: a[1, 2:3]),
    "diagonal by einsum": (lambda x: aj.einsum("ii->i", x), lambda a: np.einsum("ii->i", a)),
    "transposed by einsum": (lambda x: aj.einsum("ij->ji", x), lambda a: a.T),
    "transposed by einsum's order": (lambda x: aj.einsum("ji", x), lambda a: a.T),
    "sum_to_size": (lambda x: x.sum_to_size(4, 4), lambda a: a[:]),
    "expand_as": (lambda x: x.expand_as(x), lambda a: a[:]),
    "conj": (lambda x: x.conj(), lambda a: a[:]),
    "view_as_complex": (lambda x: aj.view_as_real(aj.view_as_complex(x.reshape(4, 2, 2))), lambda a: a.reshape(4, 2, 2)),
    "view_as_real of columns": (lambda x: aj.view_as_real(aj.view_as_complex(x.reshape(4, 2, 2)).t()),
                                lambda a: a.reshape(4, 2, 2).transpose(1, 0, 2)),
    "select": (lambda x: aj.select(x, 1, aj.tensor(2)), lambda a: a[:, 2]),
}


@pytest.mark.parametrize("compiled", [False, True])
def test_views_follow_their_base_and_write_to_it(compiled: bool) -> None:
    def run(xs: Any, ws: Any) -> Any:
        seen = []
        for (view, _), x, w in zip(VIEWS.values(), xs, ws, strict=True):
            part = view(x)
            x.mul_(2.0)
            seen.append(part * 1)
            y = w * x
            inner = view(y)
            y.add_(1.0)
            inner.mul_(3.0)
            ((y * y).sum() + inner.sum()).backward()
            part.add_(1.0)
        return seen

    number = np.arange(16.0, dtype=np.float32).reshape(4, 4)
    xs, ws = [aj.tensor(number) for _ in VIEWS], [aj.ones(4, 4, requires_grad=True) for _ in VIEWS]
    seen = (aj.compile(run, backend="interpret") if compiled else run)(xs, ws)
    for (name, (_, view)), x, w, part in zip(VIEWS.items(), xs, ws, seen, strict=True):
        base = number * 2
        np.testing.assert_array_equal(part.numpy(), view(base), name)
        factor, inside = np.ones((4, 4), np.float32), np.zeros((4, 4), np.float32)
        view(factor)[...], view(inside)[...] = 3.0, 1.0
        np.testing.assert_allclose(w.grad.numpy(), (2 * factor**2 * (base + 1) + factor * inside) * base, rtol=1e-6, err_msg=name)
        view(base)[...] += 1
        np.testing.assert_array_equal(x.numpy(), base, name)


@pytest.mark.parametrize("compiled", [False, True])
def test_copies_among_functions_that_take_views(compiled: bool) -> None:
    """A reshape that has to copy, and an einsum that sums, leave their operand as it is, in value and gradient."""
    def run(w: Any) -> Any:
        y = w * 2
        flat, sums, total = y.t().reshape(-1), aj.einsum("ij->i", y), aj.einsum("ii", y)
        flat.mul_(3.0)
        sums.mul_(5.0)
        total.mul_(7.0)
        (y.sum() + flat.sum() + sums.sum() + total).backward()
        return y.detach(), flat.detach()

    w = aj.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    y, flat = (aj.compile(run) if compiled else run)(w)
    assert y.tolist() == [[2, 4], [6, 8]]
    assert flat.tolist() == [6, 18, 12, 24]
    assert w.grad.tolist() == [[2 * 16, 2 * 9], [2 * 9, 2 * 16]]


def test_views_that_a_compiled_function_returns_share_memory() -> None:
    number = np.arange(16.0, dtype=np.float32).reshape(4, 4)
    x, w = aj.tensor(number), aj.ones(4, 4, requires_grad=True)
    functions = [*(view for view, _ in VIEWS.values()), lambda x: x.unfold(1, 2, 1), lambda x: x.expand(2, 4, 4)]
    views = aj.compile(lambda x: [view(x) for view in functions], backend="interpret")(x)
    x.mul_(2.0)
    for view, part in zip(functions, views, strict=True):
        np.testing.assert_array_equal(part.numpy(), view(x).numpy())
    views[[*VIEWS].index("view_as_real of columns")].zero_()
    assert not x.any()
    y = w * 1
    part = aj.compile(lambda y: aj.view_as_complex(y.reshape(4, 2, 2)), backend="interpret")(y)
    part.mul_(2.0)
    y.sum().backward()
    assert w.grad.tolist() == np.full((4, 4), 2.0).tolist()


@pytest.mark.parametrize("write", [
    lambda x: x.expand(2, 3).mul_(2.0), lambda x: x.expand(2, 3).__setitem__(slice(None), 1.0), lambda x: x.unfold(1, 2, 1).add_(1.0),
    lambda x: aj.compile(lambda y: y.add_(1.0))(x.expand(2, 3)), aj.compile(lambda x: x.expand(2, 3).add_(1.0))])
def test_writes_to_repeated_elements_are_refused(write: Callable[[Any], Any]) -> None:
    x = aj.ones(1, 3)
    with pytest.raises(aj.errors.InPlaceError, match="more than one element of the written-to tensor refers to a single memory location"):
        write(x)
    assert x.tolist() == [[1.0, 1.0, 1.0]]


def test_what_a_program_writes_to_is_saved_as_it_was() -> None:
    def scaled(x: Any, counts: Any) -> Any:
        y = x / (counts * counts + 1)
        counts[0].add_(5)
        counts.mul_(2)
        return y

    x, counts = aj.ones(3, requires_grad=True), aj.tensor([[0, 1, 2]])
    y = aj.compile(scaled, backend="interpret")(x, counts)
    assert counts.tolist() == [[10, 12, 14]]
    y.sum().backward()
    assert x.grad.tolist() == pytest.approx([1.0, 0.5, 0.2])

    def squared(x: Any) -> Any:
        y = x * x
        x.detach().mul_(2.0)
        return y

    y = aj.compile(squared, backend="interpret")(x)
    with pytest.raises(aj.errors.InPlaceError, match="written to in place after it was saved"):     # it goes on to others
        y.sum().backward()


def test_writes_to_computed_arguments_are_refused_as_such() -> None:
    w = aj.ones(3, requires_grad=True)
    with pytest.raises(aj.errors.UnsupportedError, match="which was computed with a gradient, is written to in place"):
        aj.compile(lambda y: y.mul_(3.0))(w * 2)
    with pytest.raises(aj.errors.InPlaceError, match="a leaf that requires grad"):
        aj.compile(lambda y: y.mul_(3.0))(w)


def test_parts_without_repeated_elements_are_written_to() -> None:
    w = aj.ones(1, 3, requires_grad=True)
    y = w * 1
    wide = y.expand(2, 3)
    wide[0, 1:].mul_(3.0)
    wide.sum().backward()
    assert wide.tolist() == [[1.0, 3.0, 3.0]] * 2
    assert w.grad.tolist() == [[2.0, 6.0, 6.0]]
    x = aj.arange(6.0)
    x.t().unfold(0, 2, 1)[1].add_(5.0)
    aj.zeros(3, 2).t()[:, :1].expand(2, 4).fill_(1.0)
    assert x.tolist() == [0, 6, 7, 3, 4, 5]
    locked = np.ones(2)
    locked.flags.writeable = False
    with pytest.raises(aj.errors.InPlaceError, match="read-only"):
        aj.as_tensor(locked).add_(1.0)
    x = aj.arange(3.0)
    part = x.unfold(0, 2, 1)
    x.mul_(2.0)
    assert part.tolist() == [[0, 2], [2, 4]]


def test_view_as_complex_of_numbers_apart_is_refused() -> None:
    with pytest.raises(aj.errors.ShapeError, match="view"):
        aj.view_as_complex(aj.zeros(2, 3).t())


@pytest.mark.parametrize("divide", [
    lambda a, b: a // b, lambda a, b: a % b, lambda a, b: a // 0, lambda a, b: a % 0, lambda a, b: 5 // b, lambda a, b: 5 % b,
    lambda a, b: a.remainder(b), lambda a, b: a.fmod(0), lambda a, b: a.floor_divide_(b), lambda a, b: aj.floor_divide(a, b)])
def test_integers_divided_by_zero_are_an_error(divide: Callable[[Any, Any], Any]) -> None:
    a, b = aj.tensor([7, 8]), aj.tensor([0, 2])
    with pytest.raises(aj.errors.ZeroDivisorError, match="test_tensors_as_pytorch") as caught:
        divide(a, b)
    assert isinstance(caught.value, RuntimeError)
    assert isinstance(caught.value, ZeroDivisionError)
    assert (5 // a).tolist() == [0, 0]
    assert (a // 0.0).tolist() == [float("inf")] * 2
    assert (5.0 // b).tolist() == [float("inf"), 2]
    assert (a[:0] // 0).shape == (0,)
    assert aj.compile(lambda a, b: a // b)(a, b).tolist() == [0, 4]


def test_arguments_that_change_nothing_here() -> None:
    x = aj.tensor([[1.0, 2.0]])
    assert x.copy_(aj.tensor([3.0, 4.0]), True).tolist() == x.copy_(x.clone(), non_blocking=True).tolist() == [[3, 4]]
    index = aj.tensor([[1, 0]])
    assert aj.gather(x, 1, index, sparse_grad=True).tolist() == x.gather(1, index, sparse_grad=False).tolist() == [[4, 3]]
    w = aj.tensor([3.0, 4.0], requires_grad=True)
    w.grad = aj.tensor([3.0, 4.0])
    assert aj.nn.utils.clip_grad_norm_([w], 1.0, foreach=True).item() == 5
    aj.nn.utils.clip_grad_value_(w, 0.5, foreach=False)
    assert w.grad.tolist() == [0.5, 0.5]


def test_positional_arguments_of_grad_are_in_the_order_of_pytorch() -> None:
    x, other = aj.tensor([3.0], requires_grad=True), aj.tensor([1.0], requires_grad=True)
    first, none = aj.autograd.grad((x * x).sum(), (x, other), None, None, False, True, True)
    assert (first.tolist(), none) == ([6], None)
    with pytest.raises(aj.errors.NonDifferentiableError):
        aj.autograd.grad((x * x).sum(), (x, other), None, None, False, True)


def test_what_has_nothing_to_change_is_the_tensor_itself() -> None:
    x, m, s = aj.ones(3, requires_grad=True), aj.ones(2, 3), aj.tensor(2.0)
    assert all(y is x for y in (x.flatten(), aj.flatten(x), x.flatten(0, -1), aj.atleast_1d(x)))
    assert all(y is m for y in (m.flatten(1), m.flatten(0, 0), aj.atleast_2d(m), *aj.atleast_1d(m, m), m.sum_to_size(2, 3)))
    assert s.mT is s
    assert s.flatten().shape == (1,)
    with pytest.raises(aj.errors.IndexingError, match=r"Dimension out of range \(expected to be in range of \[-1, 0\], but got 1\)"):
        s.movedim(1, 0)


def test_norms_of_halves_are_computed_in_four_bytes() -> None:
    for dtype in (aj.float16, aj.bfloat16):
        x = aj.tensor([300.0, 400.0, 0.0], dtype=dtype, requires_grad=True)
        norm = x.norm()
        norm.backward()
        assert (norm.item(), norm.dtype) == (500.0, dtype)
        np.testing.assert_allclose(x.grad.float().numpy(), [0.6, 0.8, 0.0], rtol=4e-3)
        for unit in (aj.nn.functional.normalize(x, dim=0), x / x.norm(dim=0)):
            np.testing.assert_allclose(unit.detach().float().numpy(), [0.6, 0.8, 0.0], rtol=4e-3)
        np.testing.assert_allclose(aj.nn.functional.cosine_similarity(x, x, dim=0).item(), 1.0, rtol=8e-3)


@pytest.mark.parametrize(("clamp", "gradient"), [
    (lambda x: x.clamp(0.0, 6.0), [0, 0, 1, 0, 0]), (lambda x: x.clamp(min=0), [0, 0, 1, 1, 1]),
    (lambda x: x.clip(max=6.0), [1, 1, 1, 0, 0]),
    (lambda x: x.clamp_min(0.0), [0, 0, 1, 1, 1]), (lambda x: x.clamp(aj.zeros(5), 6.0 * aj.ones(5)), [0, 0.5, 1, 0.5, 0]),
    (lambda x: aj.clamp_max(x, 6.0 * aj.ones(5)), [1, 1, 1, 0.5, 0]), (lambda x: aj.nn.functional.hardtanh(x, 0.0, 6.0), [0, 0, 1, 0, 0])])
def test_derivative_of_clamp_at_its_bounds(clamp: Callable[[Any], Any], gradient: list[float]) -> None:
    x = aj.tensor([-1.0, 0.0, 1.0, 6.0, 7.0], requires_grad=True)
    clamp(x).sum().backward()
    assert x.grad.tolist() == gradient


def test_derivatives_of_clamp_by_its_bounds() -> None:
    x, low, high = (aj.tensor(values, requires_grad=True) for values in ([0.0, 1.0, 2.0], [0.0, 0.0, 0.0], [1.0, 1.0, 1.0]))
    x.clamp(low, high).sum().backward()
    assert [y.grad.tolist() for y in (x, low, high)] == [[0.5, 0.5, 0], [0.5, 0, 0], [0, 0.5, 1]]
    assert x.clamp(low, aj.tensor(float("nan"))).isnan().all()


def test_sums_of_bools_at_indices_are_bools() -> None:
    x, index, yes = aj.zeros(3, dtype=aj.bool), aj.tensor([0, 0, 1]), aj.ones(3, dtype=aj.bool)
    for made in (x.scatter_add(0, index, yes), x.index_add(0, index, yes), aj.compile(aj.scatter_add)(x, 0, index, yes)):
        assert made.tolist() == [True, True, False]


@pytest.mark.parametrize("shape", [(3, 0), (0, 3), (0,)])
def test_softmax_of_no_elements(shape: tuple[int, ...]) -> None:
    x = aj.zeros(shape, requires_grad=True)
    for function in (aj.softmax, aj.log_softmax, aj.nn.functional.softmax, aj.nn.functional.log_softmax, aj.nn.functional.softmin):
        made = function(x, dim=-1)
        made.sum().backward()
        assert made.shape == x.grad.shape == shape
        assert made is not x


def test_shapes_of_outside_tensors_stay_in_compiled_functions() -> None:
    x = aj.ones(2, 3)

    def own() -> aj.Tensor:
        made = aj.tensor(np.ones((2, 3)))
        made.t_()
        return made * 2

    assert aj.compile(own)().shape == (3, 2)
    for function in (lambda: x.t_().sum(0), lambda: x.unsqueeze_(0), lambda: (x * 1, x.t_())):
        with pytest.raises(aj.errors.UnsupportedError, match="a tensor from outside of the compiled function gets another shape"):
            aj.compile(function)()
        assert x.shape == (2, 3)
