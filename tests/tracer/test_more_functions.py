"""Functions of the parts of numbers, sets, indices, ranges and windows: values and dtypes as NumPy's, derivatives by differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.each import for_each
from support.numpy_comparison import check_gradients, check_values, quietly

import adjit as aj
from adjit.codegen.llvm.target import host_targets

X = np.array([3.0, -1.5, 0.25, 7.0, 1e-310, 0.0, -0.0, np.inf, np.nan, -5e300])
F = np.array([3.0, -1.5, 0.25, 7.0, 1e-42, 0.0, -0.0, np.inf, np.nan, -5e30], np.float32)


def expressions(text: str) -> list[str]:
    """Expressions with two spaces or a new line between them."""
    return text.strip().replace("\n", "  ").split("  ")


ARGUMENTS = {
    "x": X, "f": F, "i": np.array([12, 18, -7, 0, 5]), "k": np.array([8, 27, 21, 0, 0]), "M": np.arange(12.0).reshape(3, 4),
    "b": np.array([True, False, True]), "u": np.array([1, 200, 255], np.uint8)}
VALUES = expressions("""
np.frexp(x)  np.frexp(f)  np.frexp(i)  np.frexp(2.5*x[0])  np.ldexp(x,3)  np.ldexp(x,i[0]-50)  np.ldexp(x[:5],i*100)  np.ldexp(f[:5],i*10)
np.ldexp(x,-1070)  np.ldexp(1.0,i)  np.nextafter(x,2.0)  np.nextafter(x,x[::-1])  np.nextafter(f,f[::-1])  np.spacing(x)  np.spacing(f)
np.gcd(i,k)  np.lcm(i,k)  np.gcd(i,6)  np.lcm(u,6)  np.gcd.reduce(i)  np.gcd.outer(i,k)  np.bitwise_count(i)  np.bitwise_count(u)
np.packbits(u)  np.packbits(u>100,bitorder='little')  np.unpackbits(u)  np.unpackbits(u[:,None],axis=1,count=5,bitorder='little')
np.packbits(np.unpackbits(u[:,None],axis=1),axis=1)  np.unpackbits(u,count=-3)  np.unpackbits(u,count=30)
np.matvec(M,M[0])  np.vecmat(M[:,0],M)  np.matvec(M,M,axes=[(0,1),(1,),(1,)])  np.fix(x)  np.isposinf(x)  np.isneginf(f)  np.isneginf(i)
np.ix_(i,b)  np.lexsort((k,i))  np.lexsort(M)  np.lexsort(M.T,axis=0)  np.ravel_multi_index((abs(i)%3,abs(k)%4),(3,4))
np.ravel_multi_index((i,k),(3,4),mode=('wrap','clip'))  np.ravel_multi_index((abs(i)%3,abs(k)%4),(3,4),order='F')
np.unravel_index(abs(i),(4,7))  np.unravel_index(abs(i),(4,7),order='F')  np.unravel_index(i[0],(4,7))
np.setxor1d(i,k)  np.unique_all(i)  np.unique_counts(x)  np.unique_inverse(i)  np.unique_values(x)  np.unique(x,equal_nan=False)
np.unique(M%2,axis=0)  np.unique(M%2,axis=1,return_index=True,return_inverse=True,return_counts=True)
np.intersect1d(i,k,return_indices=True)
np.trim_zeros(np.pad(M,1))  np.trim_zeros(np.pad(M,1),'f',axis=0)
np.lib.stride_tricks.sliding_window_view(x,3)  np.lib.stride_tricks.sliding_window_view(M,(2,2))
np.lib.stride_tricks.sliding_window_view(M,2,axis=1)
np.linspace(x[0],x[3],5,retstep=True)  np.linspace(M[0],M[1],5,axis=1)  np.linspace(M[0],M[1],1,retstep=True)
np.linspace(i[0],i[1],4,endpoint=False,dtype=int)  np.logspace(x[0],1.0,5)  np.logspace(M[0]/10,M[1]/10,5,base=2,axis=1)
np.logspace(M[0]/10,1.0,5,base=M[1])  np.geomspace(x[0],x[3],5)  np.geomspace(M[1],M[2],4,endpoint=False,axis=-1)
np.geomspace(-x[0],-9.0,3)
np.asarray(np.array_equiv(M,M[:1]))  np.asarray(np.array_equiv(M,M[0]*0+M))
np.einsum_path('ij,jk,kl',M,M.T,M)  np.common_type(f,i)()  np.min_scalar_type(u).name
np.poly(x[:4])  np.polydiv(x[:4],[1.0,2.0])  np.polydiv(M[0],M[1][:2])  np.array_repr(x)  np.array2string(x,precision=2)  np.array_str(M)
np.require(M,requirements=['C'])  np.require(M,'f4')  np.fromfunction(lambda a,b:a*x[0]+b,(2,3))
np.lib.scimath.sqrt(abs(x))  np.lib.scimath.log(M)  np.lib.scimath.logn(2.0,M)  np.lib.scimath.power(M,2)  np.lib.scimath.power(M+1,-2)
np.divmod(x,2.0,out=(np.empty(10),np.empty(10)))  np.modf(x,out=(None,np.empty(10)))
np.frexp(M,out=(np.empty((3,4)),np.empty((3,4),np.int32)))
np.add(x,x,signature='dd->d')  np.sqrt(i,signature='f->f')  np.add(i,i,sig=(None,None,'d'))  x[:3].device  x[:3].to_device('cpu')
""")
SLOPES = expressions("""
np.frexp(y)[0]  np.ldexp(y,3)  np.nextafter(y,9.0)  np.linspace(y[0],y[1],5)  np.logspace(y[0],y[1],4)  np.geomspace(y[0],y[1],4)
np.poly(y)  np.polydiv(y,y[:2])[0]  np.lib.stride_tricks.sliding_window_view(y,2)  np.lib.scimath.log(y)  np.matvec(np.outer(y,y),y)
np.vecmat(y,np.outer(y,y))  np.setxor1d(y,y[:2])  np.add(y,y,signature='dd->d')  np.multiply(y,y,where=y>1,out=np.zeros(3))
""")


def function(text: str, names: str) -> Any:
    return eval(f"lambda {names}: {text}", {"np": np})


def check(text: str, backend: str) -> None:
    check_values(function(text, ",".join(ARGUMENTS)), [tuple(ARGUMENTS.values())], backend, 1e-14)


def test_values_are_those_of_numpy(exhaustive: bool) -> None:
    for_each(((text, (text, "interpret")) for text in VALUES if hasattr(np, text[3:].partition("(")[0].partition(".")[0])), check)
    if exhaustive:
        for_each(((text, (text, "numba")) for text in VALUES), check)


@pytest.mark.skipif(not host_targets(), reason="no native code on this machine")
def test_values_in_native_code(exhaustive: bool) -> None:
    first = [text for text in VALUES if text.startswith(("np.frexp(f", "np.ldexp(x,i", "np.nextafter(x,x", "np.gcd(i,k", "np.spacing(f"))]
    for_each(((text, (text, "native")) for text in (VALUES if exhaustive else first)), check)


def test_derivatives_are_slopes() -> None:
    for_each(((text, (function(text, "y"), [(np.array([1.3, 2.6, 0.7]),)], (0,), "interpret")) for text in SLOPES), check_gradients)


def test_places_out_of_bounds_raise_at_run_time() -> None:
    compiled = aj.compile(lambda i: np.ravel_multi_index((i, i), (3, 4)), backend="interpret")
    np.testing.assert_array_equal(compiled(np.array([1, 2])), [5, 10])
    with pytest.raises(IndexError):
        compiled(np.array([1, 3]))


def test_plain_arrays_of_the_namespace() -> None:
    with quietly():
        for text in ("np.frexp(x)", "np.gcd(i,k)", "np.lexsort((k,i))", "np.unique_counts(i)", "np.geomspace(1.0,9.0,3)"):
            found = eval(text, {"np": aj.numpy, **ARGUMENTS})
            wanted = eval(text, {"np": np, **ARGUMENTS})
            for one, other in zip(found, wanted, strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-15)
