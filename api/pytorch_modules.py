"""Modules of PyTorch that have another name here: `from adjit.nn.modules.batchnorm import _BatchNorm` finds the class where it is.

A finder makes such a module when a program imports it; its attributes are those of the modules in the table.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

from adjit.eager.modes import no_grad

if TYPE_CHECKING:
    from importlib.abc import Loader

_LAYERS = {
    "activation": "nn.activations nn.attention", "adaptive": "nn.adaptive_softmax", "batchnorm": "nn.normalization",
    "channelshuffle": "nn.resizing", "container": "nn.containers", "conv": "nn.convolution", "distance": "nn.distances",
    "dropout": "nn.dropout", "flatten": "nn.linear nn.resizing", "fold": "nn.resizing", "instancenorm": "nn.normalization",
    "linear": "nn.linear", "loss": "nn.losses nn.margin_losses", "module": "nn.module", "normalization": "nn.normalization",
    "padding": "nn.padding", "pixelshuffle": "nn.resizing", "pooling": "nn.pooling", "rnn": "nn.recurrent nn.recurrent_cells",
    "sparse": "nn.linear", "transformer": "nn.transformer", "upsampling": "nn.resizing", "utils": "pytorch_modules"}
_OPTIMIZERS = ("adadelta", "adamax", "asgd", "nadam", "radam", "rprop")       # `optim.adam` and the like are functions
_DISTRIBUTIONS = (
    "bernoulli", "beta", "binomial", "categorical", "cauchy", "chi2", "dirichlet", "exponential", "gamma", "geometric", "gumbel",
    "half_cauchy", "half_normal", "independent", "laplace", "log_normal", "mixture_same_family", "multinomial", "multivariate_normal",
    "normal", "one_hot_categorical", "pareto", "poisson", "studentT", "transformed_distribution", "uniform", "weibull")
PLACES: dict[str, str] = {
    "autograd.function": "autograd pytorch_modules", "autograd.grad_mode": "autograd", "autograd.variable": "autograd",
    "cuda.amp": "amp.cuda amp",
    "functional": "", "nn.modules": "nn", "nn.utils.clip_grad": "nn.utils", "nn.utils.convert_parameters": "nn.utils",
    "utils.data.dataloader": "utils.data", "utils.data.dataset": "utils.data",
    "utils.data.sampler": "utils.data",
    **{f"nn.modules.{name}": f"{homes} nn" for name, homes in _LAYERS.items()},
    **dict.fromkeys((f"optim.{name}" for name in _OPTIMIZERS), "optim"),
    **dict.fromkeys((f"distributions.{name}" for name in _DISTRIBUTIONS), "distributions")}
"""By PyTorch's name, without the package's: the modules here that have its attributes, in the order in which they are asked."""

_RENAMED = {"_ConvNd": "_Convolution", "_ConvTransposeNd": "_TransposedConvolution", "_WeightedLoss": "_Loss", "_NormBase": "_Tracking",
            "_DropoutNd": "Dropout", "_MaxPoolNd": "_MaxPool"}


class _Finder:
    """Finder of the modules in `PLACES`, and their loader. It has no base of `importlib.abc`, which takes 4 ms to import."""

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        package, _, place = name.partition(".")
        if package != "adjit" or place not in PLACES:
            return None
        return ModuleSpec(name, cast("Loader", self), is_package=place in ("nn.modules",))

    def create_module(self, spec: ModuleSpec) -> None:
        """Leave it to `import` to make the module."""

    def exec_module(self, module: ModuleType) -> None:
        place = module.__name__.partition(".")[2]
        homes = PLACES[place].split(" ")

        def find(name: str) -> Any:
            """Return the attribute of the first of the modules that has it."""
            if not name.startswith("__"):
                if f"{place}.{name}" in PLACES:
                    return import_module(f"adjit.{place}.{name}")
                for home in homes:
                    found: Any = getattr(import_module(f"adjit.{home}" if home else "adjit"), _RENAMED.get(name, name), None)
                    if found is not None:
                        return found
            raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")

        vars(module).update(__getattr__=find, __doc__=f"As PyTorch's: what is in {' and '.join(f'adjit.{home}' for home in homes)}.")


def install() -> None:
    """Have `import` find the modules."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.append(_Finder())


def once_differentiable(function: Any) -> Any:
    """Return a `backward` of an `autograd.Function` whose gradients are constants.

    >>> once_differentiable(len) is len
    False
    """
    def backward(ctx: Any, *grads: Any) -> Any:
        with no_grad():
            return function(ctx, *grads)

    return backward


def _ntuple(count: int) -> Any:
    def several(value: Any) -> tuple[Any, ...]:
        return tuple(value) if isinstance(value, (tuple, list)) else (value,) * count
    return several


_single, _pair, _triple, _quadruple = map(_ntuple, (1, 2, 3, 4))
