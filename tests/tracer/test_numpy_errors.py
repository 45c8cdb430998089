"""Bad input of NumPy's functions: what NumPy says, as an error of the kind that NumPy raises, at the user's line."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjit as aj
from adjit.errors import AdjitError, ShapeError

X, V, N, S, B = np.arange(6.0).reshape(2, 3), np.arange(3.0), np.array([0, 1, 2]), np.ones((2, 2)), np.array([True, False, True])

CALLS = r"""
x+np.ones((3,2))  x*np.ones(4)  np.add(x,np.ones(2))  np.maximum(x,np.ones((4,3)))  np.where(x>0,x,np.ones(5))
np.where(np.ones((4,),bool),x,x)  np.clip(x,np.ones(2),None)  np.sum(x,axis=2)  np.sum(x,axis=(0,0))  np.sum(x,axis=-3)
np.mean(x,axis=5)  np.max(x,axis=2)  np.argmax(x,axis=2)  np.cumsum(x,axis=2)  np.prod(x,axis=(0,2))  np.std(x,axis=3)
np.var(x,axis=-4)  np.median(x,axis=2)  np.quantile(x,0.5,axis=2)  np.sort(x,axis=2)  np.argsort(x,axis=-3)  np.flip(x,2)
np.roll(x,1,axis=2)  np.any(x,axis=2)  np.all(x,axis=2)  np.ptp(x,axis=2)  np.diff(x,axis=2)  np.average(x,axis=2)
np.count_nonzero(x,axis=2)  np.nansum(x,axis=2)  np.linalg.norm(x,axis=2)  np.trapezoid(x,axis=2)  np.gradient(x,axis=2)
np.unwrap(x,axis=2)  np.max(np.zeros((0,))+v[:0])  np.min(x[:0],axis=0)  np.argmax(x[:0])  np.argmin(x[:,:0],axis=1)  np.max(x[:0])
np.amin(v[3:])  np.ptp(v[:0])  np.nanmax(v[:0])  np.nanargmax(v[:0])  x[2]  x[0,3]  x[-3]  x[0,0,0]  v[5]  x[:,3]  x[[0,2]]
x[np.array([3])]  x['a']  x[1.5]  x[None,None,0,0,0]  x[...,...]  v[b[:2]]  x[np.ones((3,3),bool)]  x[i]  np.take(x,5)
np.take(x,[0,9],axis=1)  np.take_along_axis(x,i,axis=0)  np.take_along_axis(x,np.array([[0,5,0]]),axis=0)
np.compress([True],x,axis=3)  np.delete(v,7)  np.insert(v,9,1.0)  np.einsum('ij,jk->ik',x,x)  np.einsum('ij->ijk',x)
np.einsum('ij,k',x)  np.einsum('i',x)  np.einsum('i-j',x)  np.einsum('ij->ii',x)  np.einsum('ij,jk',x,v)  np.einsum('a$',x)
np.einsum('ijk',x)  np.einsum('...i->i',x)  np.einsum('ij->k',x)  np.einsum('ii',x)  np.concatenate([x,v])
np.concatenate([x,np.ones((2,4))])  np.concatenate([x,np.ones((3,3))],axis=1)  np.concatenate([])  np.concatenate([x,x],axis=2)
np.stack([x,v])  np.stack([x,x],axis=4)  np.stack([])  np.vstack([x,np.ones((2,2))])  np.hstack([x,np.ones((3,3))])  np.dstack([x,v])
np.column_stack([v,np.ones(4)])  np.block([[x,v]])  np.append(x,v,axis=0)  x@x  x@np.ones(2)  v@np.ones(4)  np.dot(x,x)
np.matmul(x,2.0)  np.matmul(v,np.ones((2,2)))  np.inner(x,np.ones(2))  np.tensordot(x,x,axes=1)  np.tensordot(x,x,axes=([0],[1]))
np.vdot(x,v)  np.outer(x,v)@v  np.cross(np.ones(4),v)  np.kron(x,v)@x  np.linalg.multi_dot([x,x])  np.vecdot(x,np.ones(2))
np.matvec(x,np.ones(2))  np.dot(x,np.ones(2))  np.linalg.solve(x,v)  np.linalg.solve(S,v)  np.linalg.inv(x)  np.linalg.det(x)
np.linalg.cholesky(x)  np.linalg.cholesky(v)  np.linalg.eigh(x)  np.linalg.svd(v)  np.linalg.qr(v)  np.linalg.slogdet(x)
np.linalg.norm(x,ord=7)  np.linalg.norm(np.ones((2,2,2)),ord=2)  np.linalg.matrix_power(x,2)  np.linalg.lstsq(x,v)  np.linalg.pinv(v)
np.linalg.matrix_rank(np.ones(()))  np.linalg.cond(v)  np.linalg.inv(v)  np.reshape(x,(4,))  np.reshape(x,(-1,-1))
np.reshape(x,(4,-1))  x.reshape(7)  np.transpose(x,(0,0))  np.transpose(x,(0,1,2))  np.swapaxes(x,0,2)  np.moveaxis(x,0,3)
np.moveaxis(x,[0,1],[0])  np.squeeze(x,axis=0)  np.expand_dims(x,4)  np.broadcast_to(x,(3,3))  np.broadcast_to(x,(3,))
np.broadcast_arrays(x,np.ones(4))  np.split(x,2,axis=1)  np.split(v,2)  np.split(v,[1],axis=1)  np.tile(x,-1)  np.repeat(v,[1,2])
np.repeat(x,2,axis=3)  np.rollaxis(x,3)  np.hsplit(v,2)  np.vsplit(v,1)  np.pad(x,((1,1),(1,1),(1,1)))  np.pad(x,-1)
np.pad(v,1,mode='foo')  np.squeeze(x,axis=5)  np.array_split(v,0)  np.rot90(v)  np.fliplr(v)  np.diagonal(v)  np.trace(v)
np.diag(np.ones((2,2,2))*x[0,0])  np.tril(x[0,0])  np.vander(x)  np.interp(v,v,np.ones(2))  np.searchsorted(x,1.0)
np.digitize(v,np.array([1.0,3.0,2.0]))  np.convolve(x,v)  np.convolve(v[:0],v)  np.convolve(v,v,mode='foo')  np.correlate(x,v)
np.histogram(v,-1)  np.bincount(v)  np.bincount(-i-1)  np.polyval(v)  np.polyfit(v,v,-1)  np.polyfit(v,x,1)
np.cov(np.ones((2,2,2))*v[0])  np.quantile(v,1.5)  np.percentile(v,101)  np.quantile(v,0.5,method='foo')  np.partition(v,7)
np.argpartition(v,3)  np.linspace(v[0],1,-1)  np.clip(v)  np.average(v,weights=np.ones(2))  np.gradient(v[:1])
np.trapezoid(v,np.ones(2))  np.median(v,axis='a')  v.sum(1)  v.foo  v.astype('nope')  v.reshape((2,2))  ~v  v<<1  v&v
np.bitwise_and(v,v)  np.left_shift(v,1)  np.logical_and(v)  np.sin()  np.sin(v,v,v)  np.sum(v,foo=1)
np.add(v,v,where=np.ones(2,bool))  np.add.reduce(v,axis=1)  np.subtract.reduce(x,axis=(0,1))  np.add.accumulate(v,axis=2)
np.add.reduceat(v,[5])  np.zeros(-1)+v[0]  np.full((2,2),v)  np.fft.fft(v,0)  np.fft.fft(v,axis=3)  np.fft.rfft(v*1j)  float(v)
int(x)  bool(x)  v.item()  [1,2][v]  np.cos(v,1)  np.add(v,v,out=3)  np.sum([v,x])  np.exp('a')  np.exp(None)  -b  b-b
np.quantile(v*1j,0.5)  np.nanpercentile(v*1j,5,axis=0)  np.digitize(v*1j,v)  np.interp(v*1j,v,v)  np.interp(v,v*1j,v)
np.bincount(i,weights=v*1j)  np.einsum('i->',v,dtype='f4')  np.einsum('i,i',v,i,dtype=int)  np.pad(x[:,:0],1,mode='mean')
np.put(v[:0].copy(),[0],1.0)  np.polyfit(v[:0],v[:0],1)  np.linalg.cond(x[:0])  np.argpartition(v[:0],2)
"""


def raised_by(function: Callable[..., Any]) -> Exception | None:
    try:
        function(X, V, N, S, B)
    except Exception as error:
        return error
    return None


@pytest.mark.filterwarnings("ignore")
def test_messages_and_kinds_are_those_of_numpy() -> None:
    differ = []
    for call in re.split(r"\s{2,}|\n", CALLS.strip()):
        function = eval(f"lambda x, v, i, S, b: {call}", {"np": np})
        with np.errstate(all="ignore"):
            expected, found = raised_by(function), raised_by(aj.compile(function))
        alike = found is expected if expected is None else isinstance(found, type(expected)) and str(expected).strip()[:60] in str(found)
        if not alike:
            differ.append(f"{call}: NumPy {expected!r}, adjit {found!r}")
    assert not differ, "\n".join(differ)


def test_the_line_is_the_users_and_the_own_message_follows() -> None:
    def add(x: Any, y: Any) -> Any:
        return x + y

    with pytest.raises(ShapeError) as caught:
        aj.compile(add)(np.ones(2), np.ones(3))
    first, second, third, _ = str(caught.value).splitlines()
    assert first == "operands could not be broadcast together with shapes (2,) (3,)"
    assert second == "    add: the shapes of float64[2] and float64[3] cannot be broadcast together"
    assert "test_numpy_errors.py" in third


def test_functions_catch_the_kind_that_numpy_raises() -> None:
    def fall_back(x: Any) -> Any:
        try:
            return np.sum(x, axis=3)
        except np.exceptions.AxisError:
            return np.sum(x)

    def square(x: Any) -> Any:
        try:
            return np.linalg.inv(x)
        except np.linalg.LinAlgError:
            return np.linalg.pinv(x)

    assert aj.compile(fall_back)(X) == 15.0
    np.testing.assert_allclose(aj.compile(square)(X + np.eye(2, 3)), np.linalg.pinv(X + np.eye(2, 3)), atol=1e-14)


def test_large_arguments_are_not_computed_with() -> None:
    """NumPy is asked about arrays up to a size: it may succeed where adjit does not."""
    with pytest.raises(AdjitError, match="cannot be broadcast"):
        aj.compile(lambda x: x + np.ones(3))(np.zeros(1 << 23, np.int8))


def test_errors_of_the_users_own_functions_stay() -> None:
    """A function that NumPy's function calls is not called again, and its errors are its own."""
    calls = []

    class OutOfReachError(ValueError):
        pass

    def row(x: Any) -> Any:
        calls.append(1)
        raise OutOfReachError("too far")

    def fail(x: Any) -> Any:
        calls.append(1)
        raise ValueError("not this one")

    for function, error in ((row, OutOfReachError), (fail, ValueError)):
        calls.clear()
        with pytest.raises(error) as caught:
            aj.compile(lambda x, function=function: np.apply_along_axis(function, 0, x))(X)
        assert type(caught.value) is error
        assert len(calls) == 1


@pytest.mark.parametrize("function", [
    lambda x: np.quantile(x, 0.5, method="foo"), lambda x: np.cross(x[:, :5], x[:, :5]), lambda x: np.reshape(x, (-1, -1)),
])
def test_messages_say_a_thing_once(function: Any) -> None:
    """Lines of ours that NumPy's message has are left out."""
    x = np.ones((2, 6))
    with pytest.raises(ValueError) as theirs:
        function(x)
    with pytest.raises(ValueError) as ours:
        aj.compile(function)(x)
    words = str(ours.value).split("    at ")[0]
    assert [line.strip() for line in words.strip().splitlines()] == [line.strip() for line in str(theirs.value).strip().splitlines()]


def test_text_is_not_told_to_be_converted() -> None:
    with pytest.raises(aj.errors.DTypeError) as refused:
        aj.tensor("a")
    assert "supported: bool" in str(refused.value)
    assert "astype" not in str(refused.value)


@pytest.mark.parametrize(("fun", "words"), [
    (lambda x: x + "a", "'add'"), (lambda x: "a" * x, "'multiply'"), (lambda x: x @ b"a", "'matmul'"), (lambda x: x < "a", "'less'")])
def test_operators_with_text_say_what_numpy_says(fun: Callable[..., Any], words: str) -> None:
    with pytest.raises(TypeError, match=words) as theirs:
        fun(np.ones(3))
    with pytest.raises(TypeError, match=words) as ours:
        aj.compile(fun)(np.ones(3))
    assert str(ours.value).startswith(str(theirs.value))
    assert "test_numpy_errors.py" in str(ours.value)


def test_elements_are_not_equal_to_what_is_no_number() -> None:
    def function(x: Any) -> Any:
        return x == None, x != None, x != "a", np.sum(x != None), x[0] == None      # noqa: E711

    for ours, theirs in zip(aj.compile(function)(np.ones(3)), function(np.ones(3)), strict=True):
        np.testing.assert_array_equal(ours, theirs, strict=True)


def test_readers_of_memory_have_a_remedy() -> None:
    def squares(x: Any) -> Any:
        return sum(v * v for v in np.nditer(x))

    def products(x: Any, y: Any) -> Any:
        return sum(a * b for a, b in np.broadcast(x, y))

    x, y = np.arange(3.0), np.ones((2, 1))
    with pytest.raises(aj.errors.TraceError, match=r"x\.flat"):
        aj.compile(squares)(x)
    with pytest.raises(aj.errors.TraceError, match="broadcast_arrays"):
        aj.compile(products)(x, y)
    assert aj.compile(lambda x: sum(v * v for v in x.flat))(x) == 5.0
    assert aj.compile(lambda x, y: sum(a * b for a, b in zip(*(a.flat for a in np.broadcast_arrays(x, y)), strict=True)))(x, y) == 6.0
