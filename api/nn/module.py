"""`Module`: parameters, buffers and other modules by attribute, and a `forward` that uses them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping
from enum import Enum
from html import escape
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self, TypeVar

import numpy as np

from adjit.eager.conversions import device_or_dtype
from adjit.eager.device import names_device
from adjit.eager.modes import no_grad
from adjit.eager.node import Handle
from adjit.eager.state import Stateful
from adjit.eager.tensor import Tensor, new_tensor
from adjit.eager.transfer import move_content
from adjit.ir.errors import DTypeError, TraceError, UnsupportedError
from adjit.ir.types import is_float
from adjit.nn.backward_hooks import BackwardHooks
from adjit.nn.parameter import Buffer, Parameter
from adjit.nn.state import IncompatibleKeys, load_into
from adjit.runtime.compile_function import compile
from adjit.runtime.compiled import CompiledFunction
from adjit.tracer.promotion import dtype_argument
from adjit.tracer.scope import is_tracing
from adjit.tracer.tracebacks import hide_frames
from adjit.tracer.user_location import find_user_location

Hook = Callable[..., Any]
Result = TypeVar("Result", covariant=True)


class _HasForward(Protocol[Result]):
    """Module as its calls see it."""

    def forward(self, *args: Any, **kwargs: Any) -> Result: ...


class StateHooks(NamedTuple):
    """Hooks of a module around its state."""

    before_saving: list[Hook]
    after_saving: list[Hook]
    before_load: list[Hook]
    after_load: list[Hook]


class Computed:
    """How an attribute of a module is computed at each access, in place of a parameter or buffer."""

    def compute(self, module: Module) -> Any:
        """Return the value."""
        raise NotImplementedError

    def set(self, module: Module, value: Any) -> None:
        """Change what the attribute is computed from, so that it has this value."""
        raise NotImplementedError


class Kind(Enum):
    """Kind of a registered attribute of a module."""

    PARAMETER = "parameter"
    BUFFER = "buffer"
    TRANSIENT = "buffer that is no part of the state"
    MODULE = "module"


_BUFFERS = (Kind.BUFFER, Kind.TRANSIENT)

_EXTRA = "_extra_state"
"""Name in a state of what a module has besides tensors."""


class _Table(MutableMapping[str, Any]):
    """Attributes of some kinds of a module, as a dict of PyTorch's."""

    def __init__(self, module: Module, register: Callable[[str, Any], None], *kinds: Kind):
        self._module, self._register, self._of = module, register, kinds

    def __getitem__(self, name: str) -> Any:
        if self._module._kinds.get(name) not in self._of:
            raise KeyError(name)
        return vars(self._module)[name]

    def __setitem__(self, name: str, value: Any) -> None:
        self._register(name, value)

    def __delitem__(self, name: str) -> None:
        self[name]
        delattr(self._module, name)

    def __iter__(self) -> Iterator[str]:
        return iter([name for name, kind in self._module._kinds.items() if kind in self._of])

    def __len__(self) -> int:
        return len(list(iter(self)))

    def __repr__(self) -> str:
        return repr(dict(self))


class Module(Stateful):
    """Base class of all layers and networks. Subclasses call `super().__init__()` first, and define `forward`.

    Attributes that are a `Parameter` or a `Module` are registered when they are set; buffers, tensors that belong to the state but are not
    learned, by `register_buffer`. They are ordinary attributes: `_kinds` only records their kinds, in order.

    >>> class Scale(Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.factor = Parameter(2.0)
    ...     def forward(self, x):
    ...         return x * self.factor
    >>> scale = Scale()
    >>> [name for name, parameter in scale.named_parameters()]
    ['factor']
    """

    training: bool
    _kinds: dict[str, Kind]
    _computed: Mapping[str, Computed] = MappingProxyType({})
    _pre_hooks: list[Hook] | None = None
    _hooks: list[Hook] | None = None
    _backward_hooks: BackwardHooks | None = None
    _state_hooks: StateHooks | None = None
    _compiled: CompiledFunction[..., Any] | None = None
    _outside_of_traces = ("_compiled",)

    def __init__(self) -> None:
        object.__setattr__(self, "_kinds", {})
        object.__setattr__(self, "training", True)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the module's result; subclasses define it, users call the module."""
        raise NotImplementedError(f"{type(self).__name__} defines no forward()")

    if TYPE_CHECKING:       # a call gives what the `forward` of the class gives
        def __call__(self: _HasForward[Result], *args: Any, **kwargs: Any) -> Result: ...
    else:
        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            try:
                if self._compiled is not None and not is_tracing():
                    return self._compiled(*args, **kwargs)
                if self._pre_hooks is None and self._hooks is None and self._backward_hooks is None:
                    return self.forward(*args, **kwargs)
                for hook in list(self._pre_hooks or ()):
                    args, kwargs = hook(self, args, kwargs)
                watch = self._backward_hooks.of_call(self) if self._backward_hooks else None
                output = self.forward(*(args if watch is None else watch.inputs(args)), **kwargs)
                for hook in list(self._hooks or ()):
                    returned = hook(self, args, kwargs, output)
                    output = output if returned is None else returned
                return output if watch is None else watch.outputs(output)
            except BaseException as error:
                hide_frames(error)
                raise

    # -- attributes

    def __setattr__(self, name: str, value: Any) -> None:
        kinds = self.__dict__.get("_kinds")
        if kinds is None:
            if isinstance(value, (Parameter, Module)):
                raise AttributeError(_not_initialised(self, f"set {name!r}"), name=name, obj=self)
        elif name in self._computed:
            self._computed[name].set(self, value)
            return
        elif isinstance(value, Parameter):
            kinds[name] = Kind.PARAMETER
        elif isinstance(value, Buffer):
            kinds[name] = Kind.BUFFER if value.persistent else Kind.TRANSIENT
        elif isinstance(value, Module):
            kinds[name] = Kind.MODULE
        elif value is not None and name in kinds:
            kind = kinds[name]
            if not (kind in _BUFFERS and isinstance(value, Tensor)):
                raise TypeError(f"{type(self).__name__}.{name} is a {kind.value} and is set to a {type(value).__name__}"
                                + (": set it to a Parameter, or write to it in place within adjit.no_grad()"
                                   if kind is Kind.PARAMETER and isinstance(value, Tensor) else ""))
        super().__setattr__(name, value)

    def __delattr__(self, name: str) -> None:
        object.__delattr__(self, name)
        self._kinds.pop(name, None)

    def __getattr__(self, name: str) -> Any:
        if name in self._computed:
            return self._computed[name].compute(self)
        if name == "_kinds" or (name == "training" and "_kinds" not in self.__dict__):
            raise AttributeError(_not_initialised(self, f"use {name!r}" if name != "_kinds" else "use it"), name=name, obj=self)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)

    def __copy__(self) -> Self:
        """Return a module with the same parameters, buffers and modules, to which others can be added."""
        made = type(self).__new__(type(self))
        vars(made).update(Module.__getstate__(self), _kinds=dict(self._kinds))
        return made

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_compiled"}

    def compile(self, **options: Any) -> None:
        """Compile the calls of this module in place; options are those of `adjit.compile`, with which this does not change what the module
        is: `adjit.compile(module)` returns another object.

        >>> from adjit.nn import Linear
        >>> model = Linear(3, 2)
        >>> model.compile()
        >>> model(model.weight).shape
        (2, 2)
        """
        object.__setattr__(self, "_compiled", compile(self.__call__, **options))

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Make `param` the parameter `name`; None reserves the name."""
        self._check_name(name, param, Parameter)
        self._kinds[name] = Kind.PARAMETER
        object.__setattr__(self, name, param)

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Make `tensor` the buffer `name`: saved and loaded with the state (if `persistent`), not learned."""
        self._check_name(name, tensor, Tensor)
        self._kinds[name] = Kind.BUFFER if persistent else Kind.TRANSIENT
        object.__setattr__(self, name, tensor)

    def add_module(self, name: str, module: Module | None) -> None:
        """Make `module` the submodule `name`."""
        self._check_name(name, module, Module)
        self._kinds[name] = Kind.MODULE
        object.__setattr__(self, name, module)

    register_module = add_module

    def _check_name(self, name: str, value: Any, kind: type) -> None:
        if not isinstance(name, str) or not name or "." in name:
            raise KeyError(f"the name of a {kind.__name__.lower()} is a string without '.', not empty; got {name!r}")
        if name not in self._kinds and hasattr(self, name):
            raise KeyError(f"{type(self).__name__} has an attribute {name!r} already")
        if value is not None and not isinstance(value, kind):
            raise TypeError(f"{name!r} has to be a {kind.__name__} or None, got a {type(value).__name__}")

    # -- contents

    @property
    def _parameters(self) -> MutableMapping[str, Parameter | None]:
        """The parameters of this module by name, as code for PyTorch reads and changes them."""
        return _Table(self, self.register_parameter, Kind.PARAMETER)

    @property
    def _buffers(self) -> MutableMapping[str, Tensor | None]:
        """The buffers of this module by name."""
        return _Table(self, self.register_buffer, *_BUFFERS)

    @property
    def _modules(self) -> MutableMapping[str, Module | None]:
        """The modules that are attributes of this one, by name."""
        return _Table(self, self.add_module, Kind.MODULE)

    def _registered(self, *wanted: Kind) -> Iterator[tuple[str, Any]]:
        """Yield the attributes of these kinds that are not None, in the order in which they were first registered."""
        values = self.__dict__
        for name, kind in self._kinds.items():
            if kind in wanted and (value := values[name]) is not None:
                yield name, value

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """Yield the modules that are attributes of this one, each once, with their names."""
        return _once(self._registered(Kind.MODULE))

    def children(self) -> Iterator[Module]:
        """Yield the modules that are attributes of this one, each once."""
        return (module for _, module in self.named_children())

    def named_modules(self, prefix: str = "", remove_duplicate: bool = True) -> Iterator[tuple[str, Module]]:
        """Yield this module and all within it, with their paths: `("", self)`, `("encoder", ...)`, `("encoder.0", ...)`."""
        return _once(self._all_modules(prefix)) if remove_duplicate else self._all_modules(prefix)

    def _all_modules(self, prefix: str) -> Iterator[tuple[str, Module]]:
        yield prefix, self
        for name, module in self._registered(Kind.MODULE):
            yield from module._all_modules(_joined(prefix, name))

    def modules(self) -> Iterator[Module]:
        """Yield this module and all within it, each once."""
        return (module for _, module in self.named_modules())

    def _named_tensors(self, prefix: str, recurse: bool, *kinds: Kind, shared: bool = False) -> Iterator[tuple[str, Any]]:
        modules = self._all_modules(prefix) if recurse else iter([(prefix, self)])
        for path, module in modules if shared else _once(modules):
            for name, tensor in module._registered(*kinds):
                yield _joined(path, name), tensor

    def named_parameters(self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True) -> Iterator[tuple[str, Parameter]]:
        """Yield the parameters with their paths, such as `"encoder.0.weight"`; a shared parameter comes once, unless
        `remove_duplicate=False`."""
        found = self._named_tensors(prefix, recurse, Kind.PARAMETER, shared=not remove_duplicate)
        return _once(found) if remove_duplicate else found

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """Yield the parameters, each once, for an optimiser."""
        return (parameter for _, parameter in self.named_parameters(recurse=recurse))

    def named_buffers(self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True) -> Iterator[tuple[str, Tensor]]:
        """Yield the buffers with their paths."""
        found = self._named_tensors(prefix, recurse, *_BUFFERS, shared=not remove_duplicate)
        return _once(found) if remove_duplicate else found

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """Yield the buffers, each once."""
        return (buffer for _, buffer in self.named_buffers(recurse=recurse))

    def get_submodule(self, target: str) -> Module:
        """Return the module with this path; raises `AttributeError` if there is none."""
        module: Any = self
        for name in filter(None, target.split(".")):
            module = getattr(module, name)
            if not isinstance(module, Module):
                raise AttributeError(f"{target!r}: {name!r} is no module")
        return module

    def get_parameter(self, target: str) -> Parameter:
        """Return the parameter with this path; raises `AttributeError` if there is none."""
        path, _, name = target.rpartition(".")
        parameter = getattr(self.get_submodule(path), name)
        if not isinstance(parameter, Parameter):
            raise AttributeError(f"{target!r} is no parameter")
        return parameter

    def get_buffer(self, target: str) -> Tensor:
        """Return the buffer with this path; raises `AttributeError` if there is none."""
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        if module._kinds.get(name) not in _BUFFERS:
            raise AttributeError(f"{target!r} is no buffer")
        return getattr(module, name)       # type: ignore[no-any-return]

    def set_submodule(self, target: str, module: Module, strict: bool = False) -> None:
        """Replace the module with this path, or add one; with `strict` raises `AttributeError` if there is none."""
        path, _, name = target.rpartition(".")
        parent = self.get_submodule(path)
        if strict and parent._kinds.get(name) is not Kind.MODULE:
            raise AttributeError(f"{target!r} is no module")
        parent.add_module(name, module)

    # -- state

    def state_dict(self, prefix: str = "", keep_vars: bool = False) -> dict[str, Tensor]:
        """Return parameters and persistent buffers by path, detached, on the same memory; with `keep_vars` the tensors themselves.

        >>> from adjit.nn import Linear
        >>> {name: tensor.shape for name, tensor in Linear(3, 2).state_dict().items()}
        {'weight': (2, 3), 'bias': (2,)}
        """
        root = prefix.removesuffix(".")
        hooked = [(path, module) for path, module in self._all_modules(root) if module._state_hooks is not None]
        for path, module in hooked:
            for hook in list(module._state_hooks.before_saving):      # type: ignore[union-attr]
                hook(module, f"{path}." if path else "", keep_vars)
        state = {name: item.detach() if isinstance(item, Tensor) and not keep_vars else item
                 for name, item in self._state(root, extra=True)}
        for path, module in reversed(hooked):
            for hook in list(module._state_hooks.after_saving):      # type: ignore[union-attr]
                returned = hook(module, state, f"{path}." if path else "", {})
                state = state if returned is None else returned
        return state

    def _state(self, prefix: str = "", extra: bool = False) -> Iterator[tuple[str, Any]]:
        """Yield parameters and persistent buffers by path, of each module parameters first; and its extra state where it has one."""
        for path, module in self._all_modules(prefix):
            for kind in (Kind.PARAMETER, Kind.BUFFER):
                for name, tensor in module._registered(kind):
                    yield _joined(path, name), tensor
            if extra and type(module).get_extra_state is not Module.get_extra_state:
                yield _joined(path, _EXTRA), module.get_extra_state()

    def get_extra_state(self) -> Any:
        """Return what `state_dict` holds of this module besides its tensors. Subclasses that have such state define this and
        `set_extra_state`."""
        raise NotImplementedError(f"{type(self).__name__} defines no get_extra_state()")

    def set_extra_state(self, state: Any) -> None:
        """Take what `get_extra_state` returned; `load_state_dict` calls this."""
        raise NotImplementedError(f"{type(self).__name__} defines get_extra_state() and no set_extra_state()")

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True) -> IncompatibleKeys:
        """Write tensors or arrays by path into the parameters and persistent buffers, converted to their dtypes.

        The result names keys that were missing and keys that were not expected. Raises `StateError` for such keys, with `strict`, and for
        tensors that do not fit; the error lists all of them, and nothing is written.
        """
        hooked = [(path, module) for path, module in self.named_modules() if module._state_hooks is not None]
        for path, module in self.named_modules():
            module._before_load(state_dict, f"{path}." if path else "")
        if any(module._state_hooks.before_load for _, module in hooked):       # type: ignore[union-attr]
            state_dict = dict(state_dict)
            for path, module in hooked:
                for hook in list(module._state_hooks.before_load):       # type: ignore[union-attr]
                    hook(module, state_dict, f"{path}." if path else "", {}, strict, [], [], [])
        extra = {_joined(path, _EXTRA): module for path, module in self.named_modules()
                 if type(module).set_extra_state is not Module.set_extra_state}
        found = load_into(dict(self._state()), state_dict, strict, type(self).__name__, extra)
        for name, module in extra.items():
            if name in state_dict:
                module.set_extra_state(state_dict[name])
        for _, module in hooked:
            for hook in list(module._state_hooks.after_load):       # type: ignore[union-attr]
                hook(module, found)
        return found

    def _before_load(self, state: Mapping[str, Any], prefix: str) -> None:
        """Prepare for a state; lazy modules take shapes from it."""

    # -- all submodules

    def train(self, mode: bool = True) -> Self:
        """Set `training` of all modules: dropout and batch normalisation depend on it."""
        for module in self.modules():
            module.training = bool(mode)
        return self

    def eval(self) -> Self:
        """Call `train(False)`."""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Set `requires_grad` of all parameters."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Delete the gradients of all parameters, or fill them with zeros."""
        for parameter in self.parameters():
            if set_to_none:
                parameter.grad = None       # type: ignore[attr-defined]
            elif (gradient := parameter.grad) is not None:
                with no_grad():
                    gradient.zero_()

    def apply(self, function: Callable[[Module], object]) -> Self:
        """Call `function` with every module, inner ones first; returns the module."""
        for module in self.children():
            module.apply(function)
        function(self)
        return self

    def to(self, *args: Any, dtype: Any = None, device: Any = None, non_blocking: bool = False, memory_format: Any = None) -> Self:
        """Convert all floating-point parameters, their gradients, and floating-point buffers to a dtype, or that of a tensor; returns the
        module. Arguments are those of `Tensor.to`: `to(np.float64)`, `to(device)`, `to(device, np.float64)`.

        The tensors stay the same objects, with new memory, on a card, "cuda", or "cpu"; `UnsupportedError` is raised for others.
        """
        for arg in args:
            if names_device(arg):
                device = arg
            elif arg is not None and not isinstance(arg, bool):
                dtype = device_or_dtype(arg)
        if device is not None:
            for tensor in (*self.parameters(), *self.buffers()):
                move_content(tensor, device)
        if dtype is None:
            return self
        wanted = dtype.dtype if isinstance(dtype, Tensor) else dtype_argument(dtype)
        if not is_float(wanted):
            raise DTypeError(f"modules have floating-point parameters, they cannot be converted to {wanted}", find_user_location())
        if is_tracing():
            raise TraceError("a module is converted within a compiled function", find_user_location(), hint="convert it before")
        for tensor in (*self.parameters(), *self.buffers()):
            for each in (tensor, tensor._grad):
                if each is not None and is_float(each.dtype):
                    each.array = new_tensor(each.array).to(wanted).array
        return self

    def type(self, dst_type: Any) -> Self:
        """Convert to a dtype, see `to`."""
        return self.to(dst_type)

    def cpu(self) -> Self:
        """Move all tensors to the memory of the CPU, see `to`."""
        return self.to(device="cpu")

    def cuda(self, device: Any = None) -> Self:
        """Move all tensors to a card, the current one if none is named, see `to`."""
        return self.to(device="cuda" if device is None else device)

    def float(self) -> Self:
        """Convert to float32, see `to`."""
        return self.to(np.float32)

    def double(self) -> Self:
        """Convert to float64, see `to`."""
        return self.to(np.float64)

    def half(self) -> Self:
        """Convert to float16, see `to`."""
        return self.to(np.float16)

    def bfloat16(self) -> Self:
        """Convert to bfloat16, see `to`; `DTypeError` is raised without the package ml_dtypes.

        >>> from adjit.nn import Linear
        >>> Linear(3, 2).bfloat16().weight.dtype
        dtype(bfloat16)
        """
        return self.to("bfloat16")

    # -- hooks

    def register_forward_pre_hook(self, hook: Hook, *, prepend: bool = False, with_kwargs: bool = False) -> Handle:
        """Call `hook(module, args)` before `forward`; it may return other arguments, a tuple or one argument.

        With `with_kwargs` it is `hook(module, args, kwargs)`, and returns both, or None.
        """
        def run(module: Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
            returned = hook(module, args, kwargs) if with_kwargs else hook(module, args)
            if returned is None:
                return args, kwargs
            if with_kwargs:
                return returned
            return (returned if isinstance(returned, tuple) else (returned,)), kwargs

        self._pre_hooks = self._pre_hooks if self._pre_hooks is not None else []
        return _register(self._pre_hooks, run, prepend)

    def register_forward_hook(self, hook: Hook, *, prepend: bool = False, with_kwargs: bool = False) -> Handle:
        """Call `hook(module, args, output)` after `forward`; a result other than None replaces the output.

        With `with_kwargs` it is `hook(module, args, kwargs, output)`.
        """
        def run(module: Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> Any:
            return hook(module, args, kwargs, output) if with_kwargs else hook(module, args, output)

        self._hooks = self._hooks if self._hooks is not None else []
        return _register(self._hooks, run, prepend)

    def _hooks_of_backward(self) -> BackwardHooks:
        if self._backward_hooks is None:
            self._backward_hooks = BackwardHooks()
        return self._backward_hooks

    def register_full_backward_hook(self, hook: Hook, prepend: bool = False) -> Handle:
        """Call `hook(module, grad_input, grad_output)` when the gradients of the positional inputs are known; a result other than None
        replaces them. Both are tuples, with None for what has no gradient."""
        return _register(self._hooks_of_backward().after, hook, prepend)

    def register_full_backward_pre_hook(self, hook: Hook, prepend: bool = False) -> Handle:
        """Call `hook(module, grad_output)` when the gradients of the outputs are known; a result other than None replaces them."""
        return _register(self._hooks_of_backward().before, hook, prepend)

    def _hooks_of_state(self) -> StateHooks:
        if self._state_hooks is None:
            self._state_hooks = StateHooks([], [], [], [])
        return self._state_hooks

    def register_state_dict_pre_hook(self, hook: Hook) -> Handle:
        """Call `hook(module, prefix, keep_vars)` before `state_dict` takes the tensors of this module."""
        return _register(self._hooks_of_state().before_saving, hook, False)

    def register_state_dict_post_hook(self, hook: Hook) -> Handle:
        """Call `hook(module, state_dict, prefix, {})` at the end of `state_dict`; a result other than None replaces the dict."""
        return _register(self._hooks_of_state().after_saving, hook, False)

    def register_load_state_dict_pre_hook(self, hook: Hook) -> Handle:
        """Call `hook(module, state_dict, prefix, {}, strict, [], [], [])` before a state is loaded, with a copy of the dict to change."""
        return _register(self._hooks_of_state().before_load, hook, False)

    def register_load_state_dict_post_hook(self, hook: Hook) -> Handle:
        """Call `hook(module, incompatible_keys)` after a state was loaded."""
        return _register(self._hooks_of_state().after_load, hook, False)

    # -- text

    def extra_repr(self) -> str:
        """Text in the brackets of the module's `repr`; subclasses define it."""
        return ""

    def __repr__(self) -> str:
        extra = self.extra_repr()
        modules = dict(self._registered(Kind.MODULE))
        inner = [f"({name}): {_indented(repr(module))}" for name, module in modules.items()]
        kind = "Parametrized" if "parametrizations" in modules else ""
        return tree_text(f"{kind}{type(self).__name__}", extra, inner)

    def _repr_html_(self) -> str:
        head = "<tr><th>module</th><th>kind</th><th>parameters</th></tr>"
        return f"<table><thead>{head}</thead><tbody>{''.join(_rows(self))}</tbody></table>"


def _rows(module: Module, name: str = "", depth: int = 0) -> Iterator[str]:
    """Rows of a table of a module and those in it, with the numbers of their parameters: those of shared modules count in each."""
    count = sum(int(np.prod(parameter.shape)) for parameter in module.parameters())
    text = f"{type(module).__name__}({module.extra_repr()})"
    margin = f"padding-left:{depth * 1.5}em"
    yield (f'<tr><td style="text-align:left;{margin}">{escape(name) or "(whole)"}</td><td style="text-align:left">{escape(text)}</td>'
           f"<td>{count:,}</td></tr>")
    for inner, each in module._registered(Kind.MODULE):
        yield from _rows(each, inner, depth + 1)


def tree_text(name: str, extra: str, inner: list[str]) -> str:
    """Format a module: its name with `extra` in brackets, or with the texts of its contents, one per line."""
    if not inner:
        return f"{name}({extra})"
    return "\n  ".join([f"{name}(", *([extra] if extra else []), *inner]) + "\n)"


def _indented(text: str) -> str:
    return text.replace("\n", "\n  ")


def _joined(prefix: str, name: str) -> str:
    return f"{prefix}.{name}" if prefix else name


def _once(named: Iterator[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    """Yield every object under the first of its names."""
    seen: set[int] = set()
    for name, value in named:
        if id(value) not in seen:
            seen.add(id(value))
            yield name, value


def _register(hooks: list[Hook], hook: Hook, prepend: bool) -> Handle:
    hooks.insert(0 if prepend else len(hooks), hook)
    return Handle(hooks, hook)


def _not_initialised(module: Module, what: str) -> str:
    name = type(module).__name__
    return f"{name} is not initialised, cannot {what}: {name}.__init__ has to call super().__init__() before anything else"


def refuse(name: str, **arguments: object) -> None:
    """Raise `UnsupportedError` if one of these arguments, which would change the result, is true."""
    for argument, value in arguments.items():
        if value:
            raise UnsupportedError(f"{name} accepts the argument {argument} only to match PyTorch, and does not implement it",
                                   find_user_location(), hint="leave it out")
