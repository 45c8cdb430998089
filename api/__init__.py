"""adjit ("AD + JIT"): plain NumPy functions, and whole training steps, to machine code with exact gradients.

>>> import numpy as np
>>> import adjit as aj
>>> @aj.compile
... def distance(x, y):
...     return np.sqrt(np.sum((x - y) ** 2))
>>> float(distance(np.array([0.0, 0.0]), np.array([3.0, 4.0])))
5.0
>>> aj.grad(distance)(np.array([0.0, 0.0]), np.array([3.0, 4.0]))
array([-0.6, -0.8])
"""

from importlib import import_module
from math import e, inf, nan, pi
from typing import TYPE_CHECKING, Any

from adjit.codegen.process.gc_pause import gc_paused

with gc_paused():       # of all these modules a collection would free nothing, and take a tenth of the time
    from adjit import autograd, errors, linalg, numpy, random
    from adjit.eager.autocast import autocast
    from adjit.eager.conversions import from_dlpack
    from adjit.eager.device import device
    from adjit.eager.generator import Generator, get_rng_state, manual_seed, set_rng_state
    from adjit.eager.modes import enable_grad, inference_mode, is_grad_enabled, no_grad, set_grad_enabled
    from adjit.eager.size import Size
    from adjit.eager.tensor import Tensor, tensor
    from adjit.eager.transfer import as_tensor
    from adjit.ir.spelling import nearest as _nearest
    from adjit.ir.version import VERSION as __version__
    from adjit.pytorch_modules import install as install_modules
    from adjit.runtime.batched_map import map
    from adjit.runtime.compile_function import compile
    from adjit.runtime.compiled import CompiledFunction
    from adjit.runtime.control_flow import cond, fori_loop, scan, while_loop
    from adjit.runtime.custom_vjp import custom_vjp
    from adjit.runtime.jacobians import hessian, jacfwd, jacobian, jacrev
    from adjit.runtime.pure_callback import pure_callback
    from adjit.runtime.transforms import (
        checkpoint,
        grad,
        hvp,
        jvp,
        stop_gradient,
        value_and_grad,
        vjp,
    )
    from adjit.runtime.vmap import vmap

newaxis = None
"""A new dimension in an index, as NumPy and PyTorch name it."""

if TYPE_CHECKING:
    from adjit import (
        amp,
        backends,
        cuda,
        debug,
        distributed,
        distributions,
        fft,
        fit,
        func,
        nn,
        ode,
        onnx,
        optim,
        scipy,
        solve,
        special,
        stats,
        tensor_function_names,
        testing,
        tree,
        utils,
        viz,
    )
    from adjit.dtypes import *  # noqa: F403
    from adjit.runtime.cuda.transfer import device_get, device_put
    from adjit.runtime.parameter_vectors import check_grads, ravel_pytree
    from adjit.serialization import load, save
    from adjit.tensor_function_names import *  # noqa: F403

__all__ = [
    "CompiledFunction", "Generator", "Size", "Tensor", "__version__", "amp", "as_tensor", "autocast", "autograd", "backends",
    "check_grads", "checkpoint", "compile", "cond",
    "cuda", "custom_vjp", "debug", "device", "device_get", "device_put", "distributed", "distributions", "e", "enable_grad", "errors",
    "fft", "fit", "fori_loop", "from_dlpack", "func", "get_rng_state", "grad", "hessian", "hvp", "inf", "inference_mode",
    "is_grad_enabled", "jacfwd", "jacobian", "jacrev", "jvp", "linalg", "load", "manual_seed", "map", "nan", "newaxis", "nn", "no_grad",
    "numpy", "ode", "onnx", "optim", "pi", "pure_callback", "random", "ravel_pytree", "save", "scan", "scipy", "set_grad_enabled",
    "set_rng_state", "solve", "special", "stats", "stop_gradient", "tensor", "testing", "tree", "utils", "value_and_grad", "viz", "vjp",
    "vmap", "while_loop",
]
if TYPE_CHECKING:
    __all__ += tensor_function_names.__all__        # type: ignore[has-type]

_ON_DEMAND = (
    "amp", "backends",
    "cuda", "debug", "distributed", "distributions", "fft", "fit", "func", "nn", "ode", "onnx", "optim", "scipy", "sklearn", "solve",
    "special", "stats", "testing", "tree", "utils", "viz")
_DTYPES = frozenset((
    "channels_last", "channels_last_3d", "contiguous_format", "dtype", "preserve_format", "strided",
    "bfloat16", "bool", "cdouble", "cfloat", "complex128", "complex64", "double", "float", "float16", "float32", "float64", "half", "int",
    "int16", "int32", "int64", "int8", "long", "short", "uint16", "uint32", "uint64", "uint8"))
_MODULES = {"load": "adjit.serialization", "save": "adjit.serialization", "check_grads": "adjit.runtime.parameter_vectors",
            "ravel_pytree": "adjit.runtime.parameter_vectors", "device_get": "adjit.runtime.cuda.transfer",
            "device_put": "adjit.runtime.cuda.transfer"}
_OF_LAYERS = frozenset((
    "adaptive_avg_pool1d", "adaptive_max_pool1d", "alpha_dropout", "avg_pool1d", "bilinear", "binary_cross_entropy_with_logits", "celu",
    "channel_shuffle", "conv1d", "conv2d", "conv3d", "conv_tbc", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d",
    "cosine_embedding_loss", "cosine_similarity", "ctc_loss", "dropout", "feature_alpha_dropout", "group_norm", "hinge_embedding_loss",
    "kl_div", "layer_norm", "margin_ranking_loss", "max_pool1d", "max_pool2d", "max_pool3d", "pairwise_distance", "pixel_shuffle",
    "pixel_unshuffle", "poisson_nll_loss", "rms_norm", "rrelu", "selu", "threshold", "triplet_margin_loss"))
"""Functions of `adjit.nn.functional` that PyTorch has at the top, too."""
_ELSEWHERE = {
    "jit": "aj.compile compiles a function", "pmap": "aj.vmap maps over an axis, on all cores", "pjit": "aj.compile compiles a function",
    "elementwise_grad": "aj.grad(lambda x: np.sum(f(x))) has the derivatives of an elementwise f",
    "lax": "aj.scan, aj.cond, aj.while_loop and aj.fori_loop are functions of adjit", "make_jvp": "aj.jvp(f, primals, tangents)",
    "make_vjp": "aj.vjp(f, *primals)", "make_hvp": "aj.hvp(f, primals, tangents)",
    "multigrad": "aj.grad(f, argnums=(0, 1))",
    "grad_and_value": "aj.value_and_grad; adjit.func has it by this name", "remat": "aj.checkpoint",
    "primitive": "aj.custom_vjp, or aj.pure_callback for other code",
    "defvjp": "aj.custom_vjp(f), then f.defvjp(forward, backward)", "custom_jvp": "aj.custom_vjp", "custom_gradient": "aj.custom_vjp",
    "jnp": "adjit.numpy, or NumPy itself",
    "np": "adjit.numpy, or NumPy itself", "linearize": "aj.jvp and aj.vjp", "tree_map": "aj.tree.map",
    "tree_util": "optree has functions for trees", "flatten_util": "aj.ravel_pytree", "GradientTape": "aj.value_and_grad",
    "test_util": "aj.check_grads", "make_jaxpr": "aj.compile(f).ir(\"traced\")",
    "block_until_ready": "calls return when they are done", "holomorphic_grad": "aj.grad(f, holomorphic=True)",
    "grad_and_aux": "aj.grad(f, has_aux=True)", "multigrad_dict": "aj.grad(f, argnames=(...))", "grad_named": "aj.grad(f, argnames=...)",
    "deriv": "aj.jvp(f, primals, tangents)", "egrad": "aj.grad(lambda x: np.sum(f(x))) has the derivatives of an elementwise f",
    "hessian_vector_product": "aj.hvp(f, primals, tangents)", "hessian_tensor_product": "aj.hvp(f, primals, tangents)",
    "vector_jacobian_product": "aj.vjp(f, *primals)", "value_and_jacobian": "aj.jacobian(lambda x: (f(x), f(x)), has_aux=True)",
    "PRNGKey": "aj.random.key(seed)", "switch": "aj.cond, or Python's own if and match",
    "associative_scan": "aj.scan, or np.cumsum and its kin",
    "eval_shape": "aj.compile(f).ir(\"traced\") shows shapes", "disable_jit": "aj.compile(f, backend=\"interpret\")",
    "debug_nans": "aj.debug.nans", "config": "options are arguments of aj.compile",
}
"""Names in other libraries, and what there is instead."""


install_modules()

if not TYPE_CHECKING:       # type checkers know all names
    def __getattr__(name: str) -> Any:
        """Import modules that many programs do without when they are first used: `import adjit` stays quick."""
        if name in _ON_DEMAND:
            return import_module(f"adjit.{name}")
        if name in _DTYPES:     # not kept in this module, where some are names of Python's types
            return getattr(import_module("adjit.dtypes"), name)
        if name in _MODULES:
            return globals().setdefault(name, getattr(import_module(_MODULES[name]), name))
        if name in _OF_LAYERS and hasattr(import_module("adjit.nn.functional"), name):
            return globals().setdefault(name, getattr(import_module("adjit.nn.functional"), name))
        if name.startswith("_"):        # what others look for: not slips of the pen
            raise AttributeError(f"module 'adjit' has no attribute {name!r}", name=name, obj=None)
        if (function := import_module("adjit.tensor_functions").FUNCTIONS.get(name)) is not None:
            return globals().setdefault(name, function)
        there = f"; {_ELSEWHERE[name]}" if name in _ELSEWHERE else _nearest(name, __dir__())
        raise AttributeError(f"module 'adjit' has no attribute {name!r}{there}", name=name, obj=None)


def __dir__() -> list[str]:
    return sorted({*__all__, *_ON_DEMAND, *_DTYPES - {"bfloat16"}, *import_module("adjit.tensor_functions").FUNCTIONS})
