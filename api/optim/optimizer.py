"""Base class of the optimisers: parameter groups, state, and the step that updates the parameters in place."""

from __future__ import annotations

import copy
import functools
import inspect
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypedDict

import numpy as np

from adjit.eager.capture import current_capture, made_in_trace
from adjit.eager.device import CPU, device_of, on_device
from adjit.eager.foreach_update import update_in_place
from adjit.eager.modes import enable_grad, no_grad
from adjit.eager.node import Handle
from adjit.eager.state import Stateful, hyperparameter
from adjit.eager.tensor import Tensor, new_tensor, own_tensor, tensor
from adjit.ir.errors import ArgumentError, DTypeError, ShapeError, UnsupportedError
from adjit.ir.types import is_float
from adjit.optim.rules import Rule, run_rule, state_dtype
from adjit.tracer.user_location import find_user_location

Group = dict[str, Any]


class Optimizer(Stateful):
    """Base of the optimisers. `params` are tensors, (name, tensor) pairs, or dicts with "params" and options of their own.

    param_groups    a list of dicts: "params", a list of tensors, and the hyperparameters, which may be changed between steps.
    state           for each parameter a dict of tensors, made at the first step in which the parameter has a gradient.
    defaults        the hyperparameters of groups that do not say otherwise.

    >>> import adjit as aj
    >>> optimizer = aj.optim.SGD([aj.tensor([1.0], requires_grad=True)], lr=0.1)
    >>> isinstance(optimizer, Optimizer), optimizer.param_groups[0]["lr"]
    (True, 0.1)
    """

    _filled_later: tuple[str, ...] = ("state",)
    _not_saved: frozenset[str] = frozenset()        # names of state that `state_dict` leaves out
    _hooks_before: list[Callable[..., Any]] | None = None
    _hooks_after: list[Callable[..., Any]] | None = None

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "step" in vars(cls):
            cls.step = _with_hooks(cls.step)        # type: ignore[method-assign]

    def __init__(self, params: Iterable[Any], defaults: Mapping[str, Any]):
        if isinstance(params, Tensor):
            raise TypeError("params is an iterable of tensors or of dicts, got one tensor: write [tensor]")
        if not isinstance(params, Iterable):
            raise TypeError(f"params is an iterable of tensors or of dicts, got a {type(params).__name__}: {_advice(params)}")
        self.defaults = dict(defaults)
        self.state: defaultdict[Tensor, dict[str, Tensor]] = defaultdict(dict)
        self.param_groups: list[Group] = []
        self._check(self.defaults)
        groups = list(params)
        if not groups:
            raise ArgumentError("the optimiser got an empty list of parameters", find_user_location())
        for group in groups if isinstance(groups[0], dict) else [{"params": groups}]:
            self.add_param_group(group)

    # -- defined by each optimiser

    def _check(self, options: Mapping[str, Any]) -> None:
        """Raise `ValueError` for hyperparameters that make no sense."""

    def _rule(self, group: Group) -> Rule:
        """Return the formulas of a group, chosen by its booleans and by its numbers that are 0."""
        raise NotImplementedError

    def _initial(self, group: Group, name: str) -> float:
        """Return the number that fills a new state of this name."""
        return 0.0

    # -- parameters

    def add_param_group(self, param_group: Mapping[str, Any]) -> None:
        """Add parameters, with options of their own: `{"params": tensors, "lr": 0.1}`.

        Raises `TypeError` for objects that are no tensors, `DTypeError` for tensors of integers, `ValueError` for tensors that are no
        leaves or appear twice, and for options out of range. The optimiser is unchanged then.
        """
        if not isinstance(param_group, Mapping):
            raise TypeError(f"a parameter group is a dict, got a {type(param_group).__name__}")
        if "params" not in param_group:
            raise ArgumentError(f'a parameter group has its tensors under "params", got the keys {", ".join(map(repr, param_group))}',
                                find_user_location())
        given = param_group["params"]
        if isinstance(given, (set, frozenset)):
            raise TypeError("parameters have an order: pass a list instead of a set")
        items = [given] if isinstance(given, Tensor) else list(given)
        named = [item for item in items if isinstance(item, tuple)]
        if named and len(named) != len(items):
            raise ArgumentError("either all parameters of a group have names or none has", find_user_location())
        params = [item[1] for item in named] if named else items
        group: Group = {**self.defaults, **param_group, "params": params}
        if named:
            group["param_names"] = [item[0] for item in named]
        known = {id(param) for other in self.param_groups for param in other["params"]}
        for param in params:
            _check_param(param)
            if id(param) in known:
                raise ArgumentError("a parameter appears more than once in the groups of the optimiser", find_user_location())
            known.add(id(param))
        self._check(group)
        self.param_groups.append(group)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Delete the gradients of all parameters; or set them to 0, so that their memory is reused."""
        for group in self.param_groups:
            for param in group["params"]:
                if set_to_none:
                    param.grad = None
                elif param.grad is not None:
                    with no_grad():
                        param.grad.detach_().zero_()

    def register_step_pre_hook(self, hook: Callable[..., Any]) -> Handle:
        """Call `hook(optimizer, args, kwargs)` before each step; it may return other arguments for the step, as a pair."""
        self._hooks_before = self._hooks_before or []
        self._hooks_before.append(hook)
        return Handle(self._hooks_before, hook)

    def register_step_post_hook(self, hook: Callable[..., Any]) -> Handle:
        """Call `hook(optimizer, args, kwargs)` after each step."""
        self._hooks_after = self._hooks_after or []
        self._hooks_after.append(hook)
        return Handle(self._hooks_after, hook)

    # -- steps

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update all parameters that have a gradient; returns the result of `closure`, which computes the loss and gradients again."""
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        for group in self.param_groups:
            self._update(group)
        return loss

    def _update(self, group: Group) -> None:
        params: list[Tensor] = []
        operands: list[Any] = []
        for param in group["params"]:
            grad = param.grad
            if grad is not None:
                params.append(param)
                operands.append(grad)
        if not params:
            return
        for rule, chosen in self._parts(group, params):
            self._update_by(rule, group, [params[i] for i in chosen], [operands[i] for i in chosen])

    def _parts(self, group: Group, params: Sequence[Tensor]) -> Iterable[tuple[Rule, Sequence[int]]]:
        """Return the rules of a group, each with the indices of its parameters."""
        return [(self._rule(group), range(len(params)))]

    def _update_by(self, rule: Rule, group: Group, params: list[Tensor], operands: list[Any]) -> None:
        targets = params
        if rule.state:
            targets = params.copy()
            for param in params:
                known = self.state[param]
                for name in rule.state:
                    held = known.get(name)
                    targets.append(self._new_state(group, param, name, name in rule.scalars) if held is None else held)
        for name in rule.numbers:
            operands.append(self._number(group, name))
        update_in_place(_update_all, targets, operands, rule)

    def _number(self, group: Group, name: str) -> Any:
        """Return a hyperparameter for the arithmetic: a float, a tensor, or a traced scalar in a capture."""
        whole, index = _ELEMENTS.get(name, (name, None))
        value = hyperparameter(self, group, whole, index)
        return float(value) if issubclass(type(value), (int, float, np.number)) else value

    def _shape(self, param: Tensor, name: str) -> tuple[int, ...]:
        """Shape of a state."""
        return param.shape

    def _new_state(self, group: Group, param: Tensor, name: str, is_scalar: bool = False) -> Tensor:
        """Make a state of a parameter. It is real memory also while a function is captured, and is removed if the capture fails; if the
        optimiser is made in the function, its states are values of the graph."""
        known = self.state[param]
        make: Callable[[np.ndarray], Tensor] = own_tensor if made_in_trace(self) else new_tensor
        if name == "step":      # other state exists already where PyTorch has no count, or momentum existed before dampening
            made = make(np.array(1 if known else 0, np.int64))
        elif is_scalar:
            made = make(np.array(self._initial(group, name), np.float64))
        else:
            made = make(np.full(self._shape(param, name), self._initial(group, name), state_dtype(param.dtype)))
        if make is new_tensor and device_of(param.array) is not CPU:
            made.array = on_device(made.array, device_of(param.array))
        capture = current_capture()
        if capture is not None and make is new_tensor:
            capture.on_failure(lambda: _forget(self.state, param, name))
        known[name] = made
        return made

    # -- saving and loading

    def state_dict(self) -> dict[str, Any]:
        """Return `{"state": {number: {name: tensor}}, "param_groups": [...]}`, parameters by their numbers. Tensors are copies."""
        numbers: dict[int, int] = {}
        groups = []
        for group in self.param_groups:
            for param in group["params"]:
                numbers[id(param)] = len(numbers)
            groups.append({**copy.deepcopy({key: value for key, value in group.items() if key != "params"}),
                           "params": [numbers[id(param)] for param in group["params"]]})
        state = {numbers[id(param)]: {name: _copied(value) for name, value in known.items() if name not in self._not_saved}
                 for param, known in self.state.items() if id(param) in numbers and known}
        return {"state": dict(sorted(state.items())), "param_groups": groups}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Load a state that `state_dict` of an optimiser of the same structure returned; tensors are copied.

        Raises `ValueError` that lists all misfits; the optimiser is unchanged then.
        """
        problems = self._misfits(state_dict)
        if problems:
            raise ArgumentError("the state does not fit the optimiser:" + "".join(f"\n    {problem}" for problem in problems),
                                find_user_location())
        params: dict[Any, Tensor] = {}
        groups: list[Group] = []
        for group, saved in zip(self.param_groups, state_dict["param_groups"], strict=True):
            params.update(zip(saved["params"], group["params"], strict=True))
            loaded = {**copy.deepcopy({key: value for key, value in saved.items() if key != "params"}), "params": group["params"]}
            if "param_names" in group:
                loaded.setdefault("param_names", group["param_names"])
            groups.append(loaded)
        state: defaultdict[Tensor, dict[str, Any]] = defaultdict(dict)
        for number, known in state_dict["state"].items():
            param = params[number]
            state[param] = {name: self._loaded_state(name, value, param) for name, value in known.items() if value is not None}
        self.state, self.param_groups = state, groups

    def _loaded_state(self, name: str, value: Any, param: Tensor) -> Any:
        """Return a state of a parameter that was saved, as this optimiser keeps it."""
        return _loaded(name, value, param, self._shape(param, name))

    def _misfits(self, state_dict: Mapping[str, Any]) -> list[str]:
        """Describe the parts of a state that do not fit."""
        if not isinstance(state_dict, Mapping) or not {"state", "param_groups"} <= set(state_dict):
            return ['a state is a dict with "state" and "param_groups"']
        saved_groups = state_dict["param_groups"]
        if len(saved_groups) != len(self.param_groups):
            return [f"{len(saved_groups)} parameter groups, the optimiser has {len(self.param_groups)}"]
        problems: list[str] = []
        params: dict[Any, Tensor] = {}
        for index, (group, saved) in enumerate(zip(self.param_groups, saved_groups, strict=True)):
            missing = sorted(set(self.defaults) - set(saved))
            if missing:
                problems.append(f"group {index} has no {', '.join(missing)}")
            numbers = saved.get("params", ())
            if len(numbers) != len(group["params"]):
                problems.append(f"group {index} has {len(numbers)} parameters, the optimiser's group {len(group['params'])}")
            params.update(zip(numbers, group["params"], strict=False))
            if not missing:
                try:
                    self._check(saved)
                except ValueError as error:
                    problems.append(f"group {index}: {error}")
        if problems:
            return problems
        for number, known in state_dict["state"].items():
            param = params.get(number)
            if param is None:
                problems.append(f"state of parameter {number}, which is in no group")
                continue
            for name, value in known.items():
                wanted = () if name in _SCALARS else self._shape(param, name)
                if value is not None and tuple(_content(value).shape) != wanted:
                    problems.append(f"{name} of parameter {number} has the shape {tuple(_content(value).shape)}, expected {wanted}")
        return problems

    def __getstate__(self) -> dict[str, Any]:
        return {"defaults": self.defaults, "state": self.state, "param_groups": self.param_groups}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__} ("]
        for index, group in enumerate(self.param_groups):
            lines.append(f"Parameter Group {index}")
            lines += [f"    {key}: {group[key]}" for key in sorted(group) if key != "params"]
        return "\n".join([*lines, ")"])


def _with_hooks(step: Callable[..., Any]) -> Callable[..., Any]:
    """Make a method `step` call the hooks of its optimiser."""
    @functools.wraps(step)
    def hooked(self: Optimizer, *args: Any, **kwargs: Any) -> Any:
        if self._hooks_before is None and self._hooks_after is None:
            return step(self, *args, **kwargs)
        for hook in self._hooks_before or ():
            changed = hook(self, args, kwargs)
            if changed is not None:
                args, kwargs = changed
        result = step(self, *args, **kwargs)
        for hook in self._hooks_after or ():
            hook(self, args, kwargs)
        return result

    return hooked


Optimizer.step = _with_hooks(Optimizer.step)        # type: ignore[method-assign]


def _update_all(targets: Sequence[Any], operands: Sequence[Any], rule: Rule) -> list[Any]:
    """Return the new parameters, then the new state of each, by a rule; `operands` are the gradients and the rule's numbers."""
    count, width = len(operands) - len(rule.numbers), len(rule.state)
    numbers = dict(zip(rule.numbers, operands[count:], strict=True))
    params: list[Any] = []
    states: list[Any] = []
    for index in range(count):
        start = count + index * width
        state = dict(zip(rule.state, targets[start:start + width], strict=True))
        used = numbers
        new = {}
        if "step" in state:
            new["step"] = state["step"] + 1
            used = {**numbers, **{name: state[name] for name in rule.scalars}}
            new |= rule.advance(new["step"], used)
            used |= rule.scales(new["step"], used)
            state = {name: value for name, value in state.items() if name not in rule.scalars}
        param, changed = run_rule(rule, targets[index], operands[index], state, used)
        new |= changed
        params.append(param)
        states += [new[name] for name in rule.state]
    return params + states


_ELEMENTS = {"beta1": ("betas", 0), "beta2": ("betas", 1), "etaminus": ("etas", 0), "etaplus": ("etas", 1),
             "smallest": ("step_sizes", 0), "largest": ("step_sizes", 1), "eps1": ("eps", 0), "eps2": ("eps", 1)}
"""Numbers that are elements of tuples among the options."""
_SCALARS = ("step", "mu_product", "eta", "mu")
"""Names of state that has no dimensions."""


class Implementation(TypedDict, total=False):
    """Arguments that choose an implementation of PyTorch's: they change nothing here."""

    foreach: bool | None
    fused: bool | None
    capturable: bool
    differentiable: bool


def accept(optimizer: type[Optimizer], arguments: Mapping[str, Any]) -> None:
    """Accept the arguments of `Implementation`; raises `TypeError` for others."""
    name = optimizer.__name__
    for argument in arguments:
        if argument not in Implementation.__annotations__:
            known = ", ".join(p.name for p in inspect.signature(optimizer).parameters.values() if p.kind is not p.VAR_KEYWORD)
            raise TypeError(f"{name}() got an unexpected keyword argument {argument!r}; its parameters are {known}")
    if arguments.get("differentiable"):
        raise UnsupportedError(f"{name}: steps are not differentiable", find_user_location(),
                               hint="adjit.optim's functional optimisers are pure functions, which can be differentiated")


def _advice(params: Any) -> str:
    """Remedy for a module, or its method, in place of tensors."""
    if hasattr(params, "parameters"):
        return "pass model.parameters()"
    return "it was not called, pass model.parameters()" if callable(params) else "pass a list of tensors"


def _check_param(param: Any) -> None:
    if not isinstance(param, Tensor):
        raise TypeError(f"an optimiser updates tensors, got a {type(param).__name__}: {_advice(param)}")
    if not is_float(param.dtype):
        raise DTypeError(f"an optimiser updates floating-point tensors, got one of dtype {param.dtype}", find_user_location(),
                         hint="leave it out of params")
    if not param.is_leaf:
        raise ArgumentError("an optimiser updates leaves of the graph, got a tensor that was computed: pass x.detach().requires_grad_()",
                            find_user_location())


def _forget(state: dict[Tensor, dict[str, Tensor]], param: Tensor, name: str) -> None:
    known = state.get(param, {})
    known.pop(name, None)
    if not known:
        state.pop(param, None)


def _content(value: Any) -> Any:
    """Return the array of a tensor: ours, or another library's."""
    return value.array if isinstance(value, Tensor) else np.asarray(value)


def _copied(value: Any) -> Any:
    return tensor(value) if isinstance(value, Tensor) else copy.deepcopy(value)


def _loaded(name: str, value: Any, param: Tensor, shape: tuple[int, ...]) -> Tensor:
    if name not in _SCALARS and tuple(_content(value).shape) != shape:
        raise ShapeError(f"{name} has the shape {tuple(_content(value).shape)}", find_user_location())
    dtype = np.int64 if name == "step" else np.float64 if name in _SCALARS else state_dtype(param.dtype)
    return tensor(value if isinstance(value, Tensor) else np.asarray(value), dtype, device=device_of(param.array))
