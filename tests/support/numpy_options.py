"""Calls of NumPy's functions, each with every option that its signature has: what a table of plain calls and of values of options gives."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from adjit.tracer.registry import FUNCTIONS

_RANDOM = np.random.default_rng(5)
ARGUMENTS: dict[str, Any] = {
    "x": _RANDOM.normal(size=6), "y": _RANDOM.normal(size=6), "M": _RANDOM.normal(size=(3, 4)), "T": _RANDOM.normal(size=(2, 3, 4)),
    "f": _RANDOM.normal(size=6).astype(np.float32), "i": np.array([3, 1, 4, 1, 5, 0]), "K": np.array([[3, 0, 2], [1, 5, 2]]),
    "b": np.array([[True, False, True, True], [False, True, True, True], [True] * 4]),
    "c": np.array([True, False, True, True, False, True]),
    "n": np.array([1.0, np.nan, -2.0, 0.5, np.nan, 3.0]), "s": np.float64(1.5)}

PLAIN = """
all(b) amax(M) amin(M) any(b) append(M,M) apply_over_axes(np.sum,T,[0,2]) argmax(M) argmin(M) argpartition(x,2) argsort(M) argwhere(i)
around(M) array_equal(n,n) array_split(x,4) astype(M,np.float32) average(M) bincount(i) broadcast_to(x,(2,6)) choose(i%3,[x,y,x])
clip(M,-0.5,0.5)
column_stack([x,y]) compress([True,False,True],M) concatenate([M,M]) convolve(x,y) copy(M) copyto(np.zeros((3,4)),M) corrcoef(M)
correlate(x,y)
count_nonzero(K) cov(M) cross(M[:,:3],M[:,1:]) cumprod(M) cumsum(M) cumulative_prod(x) cumulative_sum(x) delete(x,2) diag(x) diagflat(x)
diagonal(T) diff(M) digitize(x,np.array([-1.0,0.0,1.0])) dot(M,M.T) dstack([M,M]) ediff1d(x) einsum('ij,kj->ik',M,M) expand_dims(M,1)
extract(c,x) fill_diagonal(M.copy(),s) flip(M) full_like(M,2.0) gradient(M) gradient(x,0.5) histogram(x) histogram_bin_edges(x)
histogram2d(x,y)
histogramdd(np.stack([x,y],1)) hstack([M,M]) imag(x) inner(M,M) insert(x,2,s) interp(x,np.arange(4.0),y[:4]) intersect1d(i,K) isclose(x,y)
isin(i,K) kron(x,y) lexsort((i,x)) linspace(s,4.0,4) logspace(s,2.0,4) geomspace(s,2.0,4) matrix_transpose(T) max(M) mean(M) median(M)
meshgrid(x,y)
min(M) moveaxis(T,0,1) nan_to_num(n) nanargmax(n) nanargmin(n) nancumprod(n) nancumsum(n) nanmax(n) nanmean(n) nanmedian(n) nanmin(n)
nanpercentile(n,30) nanprod(n) nanquantile(n,0.3) nanstd(n) nansum(n) nanvar(n) ones_like(M) outer(x,y) packbits(c) pad(M,1) partition(x,2)
percentile(M,30) poly(x) polyadd(x,y) polyder(x) polydiv(x,y[:2]) polyfit(x,y,2) polyint(x) polymul(x,y) polysub(x,y) polyval(x,y) prod(M)
ptp(M) put(x.copy(),[0,2],s) put_along_axis(M.copy(),K[:1,:1],s,1) putmask(x.copy(),c,y) quantile(M,0.3) ravel(M) real(x)
ravel_multi_index((i%3,i%4),(3,4)) repeat(M,2) reshape(M,(4,3)) resize(M,(2,3)) roll(M,2) rollaxis(T,2) rot90(M) round(M)
searchsorted(np.sort(x),y)
select([x>0,y>0],[x,y]) setdiff1d(i,K) setxor1d(i,K) sinc(x) size(M) sort(M) split(M,2,1) squeeze(M[None]) stack([x,y]) std(M) sum(M)
swapaxes(T,0,1)
take(M,[0,2]) take_along_axis(M,K[:1,:1],1) tensordot(M,M.T) tile(M,2) trace(T) transpose(T) trapezoid(M) tril(M) trim_zeros(i) triu(M)
union1d(i,K) unique(i) unravel_index(i,(2,3)) unwrap(x*4) vander(x) var(M) vdot(x,y) vsplit(M,3) vstack([x,y]) where(x>0,x,y) zeros_like(M)
empty_like(M) unstack(M) permute_dims(T) i0(x) nonzero(i) flatnonzero(i) iscomplex(x) isreal(x) isneginf(x) isposinf(x) fix(x) block([x,y])
broadcast_arrays(x,M[:,:1]) result_type(f,i) can_cast(i,np.float64) allclose(x,y) array_equiv(x,y) atleast_1d(s) atleast_2d(x) atleast_3d(x)
common_type(x,i) diag_indices_from(M[:3,:3]) dsplit(T,2) hsplit(M,2) fliplr(M) flipud(M) ndim(M) shape(M) piecewise(x,[x<0],[-1.0,s])
place(x.copy(),c,[s])
tril_indices_from(M) triu_indices_from(M) unpackbits(np.packbits(c)) einsum_path('ij,kj->ik',M,M) min_scalar_type(x) iscomplexobj(x)
isrealobj(x)
real_if_close(x) nan_to_num(x) apply_along_axis(np.cumsum,1,M) unique_all(i) unique_counts(i) unique_inverse(i) unique_values(i)
row_stack([x,y]) concat([x,y]) matvec(M,M[0]) vecmat(M[:,0],M) vecdot(M,M) matmul(M,M.T) sort_complex(x) angle(x) roots(x) ix_(i,i)
"""
"""One plain call of each function."""

VALUES: dict[str, tuple[str, ...]] = {
    "axis": ("0", "-1", "None", "(0,)", "(0, 1)"), "keepdims": ("True", "False"), "dtype": ("np.float32", "np.float64", "np.int64"),
    "initial": ("s", "2.0"), "where": ("b", "True", "c"), "ddof": ("1",), "correction": ("1",), "mean": ("M.mean(keepdims=True)",),
    "decimals": ("1", "-1"), "overwrite_input": ("True", "False"), "interpolation": (),
    "weights": ("np.abs(M)", "np.abs(x)", "np.abs(M[0])"),
    "returned": ("True",), "side": ("'right'",), "sorter": ("np.arange(6)",), "right": ("True", "9.0"), "left": ("-9.0",),
    "period": ("2.5",),
    "casting": ("'unsafe'", "'same_kind'", "'safe'"), "order": ("'C'", "'F'", "'K'", "'A'"),
    "mode": ("'clip'", "'wrap'", "'raise'", "'same'", "'valid'", "'full'"),
    "copy": ("True", "False"), "subok": ("True", "False"), "kind": ("'stable'", "'quicksort'"), "stable": ("True",), "n": ("2", "0"),
    "prepend": ("s", "M[:1]", "M[:, :1]"), "append": ("s", "M[:, :1]"), "bins": ("4", "np.array([-1.0, 0.0, 2.0])", "[3, 4]"),
    "range": ("(-1, 1)", "[(-1, 1), (-2, 2)]"),
    "density": ("True", "False"), "equal_nan": ("True",), "rtol": ("0.5",), "atol": ("0.5",), "assume_unique": ("False",),
    "invert": ("True",),
    "return_index": ("True",), "return_inverse": ("True",), "return_counts": ("True",), "return_indices": ("True",), "sorted": ("True",),
    "k": ("1", "-1"), "offset": ("1", "-1"), "axis1": ("1",), "axis2": ("2",), "axisa": ("0",), "axisb": ("0",), "axisc": ("0",),
    "m": ("2",),
    "nan": ("s", "7.0"), "posinf": ("9.0",), "neginf": ("-9.0",), "endpoint": ("False",), "retstep": ("True",), "num": ("3",),
    "base": ("2.0", "s"),
    "rowvar": ("False",), "bias": ("True",), "fweights": ("np.array([1, 2, 1, 3])",),
    "aweights": ("np.array([1.0, 2, 1, 3])", "np.abs(M[0])"), "edge_order": ("2",),
    "to_end": ("s", "x[:2]"), "to_begin": ("s", "[1.0, 2.0]"), "include_initial": ("True",), "minlength": ("9",), "discont": ("4.0",),
    "increasing": ("True",), "N": ("3",),
    "deg": ("1",), "rcond": ("1e-9",), "full": ("True",), "w": ("np.abs(x)",), "cov": ("True", "'unscaled'"), "dx": ("0.5", "s"),
    "wrap": ("True",), "trim": ("'f'", "'b'"),
    "indexing": ("'ij'",), "sparse": ("True",), "optimize": ("True", "'optimal'"), "count": ("4",), "bitorder": ("'little'",),
    "default": ("s", "9.0"),
    "reflect_type": ("'odd'",), "shape": ("(2, 2)",), "shift": ("(1, 2)",), "axes": ("(1, 0)", "1", "0"), "values": (), "out": (),
    "fill_value": ("s",),
    "x": ("x[:4]", "np.arange(4.0)"), "a_min": ("s",), "a_max": ("s",), "min": ("-1.0",), "max": ("1.0",), "tol": ("100",), "z": (),
    "start": ("1",),
    "new_shape": ("(5,)",), "repeats": ("[1, 0, 2]",), "method": (
        "'inverted_cdf'", "'averaged_inverted_cdf'", "'closest_observation'", "'interpolated_inverted_cdf'", "'hazen'", "'weibull'",
        "'linear'",
        "'median_unbiased'", "'normal_unbiased'", "'lower'", "'higher'", "'midpoint'", "'nearest'"),
}
"""Values that options are given, as texts; the function decides which of them it takes."""

FURTHER = """
pad(M,1,mode='linear_ramp',end_values=2.0) pad(M,2,mode='mean') pad(M,2,mode='mean',stat_length=2) pad(M,2,mode='maximum')
pad(M,2,mode='minimum',stat_length=1)
pad(M,1,mode='median') pad(M,2,mode='reflect',reflect_type='odd') pad(M,2,mode='symmetric',reflect_type='odd')
pad(M,1,lambda\tv,p,a,k:v.__setitem__(slice(0,p[0]),7.0))
pad(M,((1,2),(0,1)),mode='edge') pad(M,1,constant_values=s) pad(M,2,mode='wrap') pad(M,1,mode='empty')[1:-1,1:-1]
quantile(M,[0.1,0.9],axis=1,keepdims=True) quantile(M,0.3,method='inverted_cdf',weights=np.abs(M))
percentile(x,[20,40],weights=np.abs(x),method='inverted_cdf')
quantile(M,np.array([[0.2,0.3],[0.4,1.0]]),axis=0,method='hazen') nanquantile(n,0.4,method='weibull')
nanpercentile(n,40,method='inverted_cdf',weights=np.abs(x))
histogram(x,bins='auto') histogram(x,bins='sturges') histogram_bin_edges(x,bins='fd') histogram(x,bins='sqrt',weights=None)
histogram2d(x,y,bins=[3,np.array([-2.0,0.0,2.0])])
histogramdd((x,y),bins=(3,2),range=((-2,2),(-2,2)),density=True,weights=np.abs(x)) take(M,[5,-1,13],mode='wrap')
take(M,[5,-1,13],mode='clip')
sum([s,s+1]) mean([x,x+2],axis=0) max([s,2.0,s*3]) stack([x,x]).sum() dot([s,2.0],[1.0,s]) interp([s,0.5],[0.0,1.0],[s,s+1])
concatenate([[s],[1.0,2.0],x])
cov(M,M[:2]) cov([x,y]) cov(x,y) corrcoef(M,M[:1]) corrcoef(x) cov(M,ddof=0,fweights=np.array([1,2,1,3]),aweights=np.abs(M[0]))
average(T,axis=(0,2),weights=np.abs(T[:,0,:]))
average(M,axis=0,weights=[1.0,s,3.0],returned=True,keepdims=True) gradient(T,0.5,np.arange(3.0),2.0) gradient(T,axis=(0,2))
gradient(x,x.cumsum(),edge_order=2)
diff(M,2,axis=0,prepend=0.0,append=s) roll(M,(1,2),axis=(0,1)) roll(M,(1,-1),axis=0) roll(M,i[0]) roll(M,i[:2],axis=(0,1))
repeat(M,[1,0,2],axis=0) tile(M,(2,1,2)) trapezoid(x,y)
trapezoid(M,M.cumsum(1),axis=1) trapezoid(T,np.arange(3.0),axis=1) meshgrid(x,y,i,indexing='ij',sparse=True)
tensordot(T,T,axes=([1,2],[1,2])) einsum('ijk->ki',T) einsum('...j,j',M,M[0])
einsum('ij,kj->ik',M,M,optimize=True,dtype=np.float32,casting='same_kind') einsum(M,[0,1],M,[2,1],[0,2])
apply_along_axis(lambda\tv:v[:2]*s,0,M) select([x>0,x<-1],[x,s])
piecewise(x,[x<0,x>1],[lambda\tv:-v,lambda\tv:v*s,0.5]) choose(i,[x,y,s],mode='wrap') insert(M,1,x[:4],axis=0) insert(M,[1,2],s,axis=1)
insert(x,slice(1,4,2),s) delete(M,[0,2],axis=1)
delete(M,slice(None,None,2),axis=1) delete(x,c) unique(K,axis=0) nanvar(np.where(b,M,np.nan),axis=1,ddof=1)
nanstd(np.where(b,M,np.nan),axis=0,keepdims=True) nanmedian(np.where(b,M,np.nan),axis=(0,1))
nanmax(np.where(b,M,np.nan),axis=1,initial=0.0) nansum(np.where(b,M,np.nan),axis=0,where=b)
nanquantile(np.where(b,M,np.nan),[0.2,0.7],axis=1,keepdims=True) median(T,axis=(0,2),keepdims=True)
cross(M[0,:2],M[1,:2]) cross(M[:,:3],M[:,:2]) cross(T[0,:,:],T[1,:,:],axis=0) unwrap(M*3,axis=0,period=2.0) vander(x,3,increasing=True)
polyfit(x,np.stack([y,x],1),1) polyfit(x,y,1,cov=True) polyfit(x,y,1,full=True)
round(s,1) clip(x,None,0.5) clip(x,-0.5,None) clip(x,min=-1.0,max=s) where(c) argmax(M,axis=1,keepdims=True) argsort(M,axis=None)
sort(M,axis=None) partition(M,(0,2),axis=0) argpartition(x,(0,2))
searchsorted(x,y,sorter=np.argsort(x)) digitize(x,[1.0,0.0,-1.0],right=True) bincount(i,weights=x,minlength=8)
count_nonzero(K,axis=1,keepdims=True) flip(M,(0,1)) squeeze(M[None,:,None],axis=(0,2)) expand_dims(x,(0,2))
moveaxis(T,(0,1),(-1,0)) full_like(x,s,dtype=np.float32,shape=(2,)) ones_like(M,dtype=int,order='F') isin(i,[1,s],invert=True)
nan_to_num(n,nan=s) linspace(x,y,3,axis=-1) linspace(s,2.0,5,endpoint=False,retstep=True)
std(M,axis=1,mean=M.mean(1,keepdims=True),ddof=1) var(T,axis=(0,1),where=T>0,keepdims=True) mean(T,axis=(1,2),where=T>-5,dtype=np.float32)
any(M>0,axis=0,where=b) all(M>0,axis=1,keepdims=True,where=b)
max(M,axis=0,initial=0.5,where=b,keepdims=True) min(T,axis=(0,2),initial=9.0,where=T>0) prod(M,axis=1,initial=2.0,where=b)
ptp(M,axis=1,keepdims=True) cumulative_sum(M,axis=1,include_initial=True,dtype=np.float32)
"""
"""Calls with several options, or with those of one function alone."""

IGNORED = {"like", "device", "kwargs", "args", "funclist", "kw", "einsum_call", "newshape", "signature"}


def _calls(text: str) -> list[str]:
    return text.replace("\n", " ").split(" ")[1:-1]


def name_of(call: str) -> str:
    return call.partition("(")[0]


def calls() -> Iterator[str]:
    """All calls, as texts without `np.`: the plain ones, those with an option, those with several."""
    for call in _calls(PLAIN):
        if not hasattr(np, name_of(call)):
            continue
        yield call
        for option in options_of(name_of(call)):
            for value in VALUES.get(option, ()):
                yield f"{call[:-1]},{option}={value})"
    yield from (call.replace("\t", " ") for call in _calls(FURTHER) if hasattr(np, name_of(call)))


def options_of(name: str) -> list[str]:
    """Optional parameters of a function that may be given by name."""
    try:
        parameters = inspect.signature(getattr(np, name)).parameters.values()
    except ValueError:
        return []
    return [p.name for p in parameters if p.default is not p.empty and p.kind is not p.POSITIONAL_ONLY and p.name not in IGNORED]


def function_of(call: str) -> Callable[..., Any]:
    """The call as a function of the arguments."""
    made: Callable[..., Any] = eval(f"lambda {','.join(ARGUMENTS)}: np.{call}", {"np": np})
    return made


def without_calls() -> list[str]:
    """Functions with a rule of which no call is in the table."""
    known = {getattr(np, name_of(call), None) for call in _calls(PLAIN)}
    return sorted(str(f.__name__) for f in FUNCTIONS if callable(f) and not isinstance(f, np.ufunc) and f not in known
                  and getattr(f, "__module__", "") == "numpy")


def without_values() -> list[str]:
    """Options of functions for which there is no value in the table."""
    return sorted({f"{name_of(call)}({option}=)" for call in _calls(PLAIN) if hasattr(np, name_of(call))
                   for option in options_of(name_of(call)) if option not in VALUES})


def method_calls() -> Iterator[str]:
    """Calls of the methods of ufuncs with each of their options."""
    for ufunc in dict.fromkeys(key for key in FUNCTIONS if isinstance(key, np.ufunc) and key.signature is None and key.nout == 1):
        name = ufunc.__name__
        if getattr(np, name, None) is not ufunc or ufunc.nin > 2:
            continue
        floats = "d" in "".join(types[:ufunc.nin] for types in ufunc.types)
        matrix, vector, mask = ("np.abs(M)", "np.abs(x)", "b") if floats else ("K", "i", "K>1")
        yield from _calls_of_methods(name, matrix, vector, mask) if ufunc.nin == 2 else (f"{name}.at(v:={vector}.copy(),[0,2]) or v",)


def _calls_of_methods(name: str, matrix: str, vector: str, mask: str) -> Iterator[str]:
    inner = name in ("power", "arctan2")        # NumPy's own loops are wrong where an operand is overwritten in place
    for options in ("", "axis=1", "axis=-1,keepdims=True", "axis=None", "axis=(0,1),keepdims=True", "dtype=np.float64", "initial=2",
                    f"where={mask},initial=1", f"axis=1,where={mask},initial=3,keepdims=True", "axis=0,out=np.zeros(M.shape[1])"):
        if not inner or ("axis=1" not in options and "axis=-1" not in options):
            yield f"{name}.reduce({matrix},{options})"
    for options in ("", "axis=1", "dtype=np.float64", "axis=0,out=np.zeros(M.shape)"):
        yield f"{name}.accumulate({matrix},{options})"
    for options in ("[0,1]", "[0,2,1],axis=1", "[1]"):
        if not (inner and "axis=1" in options):
            yield f"{name}.reduceat({matrix},{options})"
    yield f"{name}.outer({vector},{matrix})"
    yield f"{name}.outer({vector}[0],2)"
    yield f"{name}.at(v:={vector}.copy(),[0,2,0],{vector}[:3]) or v"
    yield f"{name}({matrix},{matrix}[0],where={mask},out=np.ones({matrix}.shape))"
    if name != "logaddexp2":        # ours rounds another bit of float32
        yield f"{name}({matrix},2,dtype=np.float32,casting='unsafe')"
