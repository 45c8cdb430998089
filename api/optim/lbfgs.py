"""L-BFGS, which evaluates the loss several times in each step."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from adjit.eager.modes import enable_grad, no_grad
from adjit.eager.tensor import Tensor, new_tensor
from adjit.ir.errors import ArgumentError, UnsupportedError
from adjit.optim.optimizer import Optimizer
from adjit.tracer.scope import is_tracing
from adjit.tracer.user_location import find_user_location

Vector = np.ndarray
Objective = Callable[[float, Vector], tuple[float, Vector]]


class LBFGS(Optimizer):
    """Limited-memory BFGS: directions by the last `history_size` changes of parameters and gradients.

    `step(closure)` takes up to `max_iter` iterations and `max_eval` evaluations (by default 1.25 times as many); `closure` clears the
    gradients, computes the loss and calls `backward()`. It ends where no gradient is above `tolerance_grad`, or steps and loss change by
    less than `tolerance_change`. With `line_search_fn="strong_wolfe"` steps satisfy Wolfe's conditions, else their length is `lr`.
    All parameters are in one group. In compiled functions it raises `UnsupportedError`; compile the closure instead.
    Source: Nocedal and Wright, Numerical optimization, 2006, algorithms 7.4 and 3.5, as in `torch.optim.LBFGS`.

    >>> import adjit as aj
    >>> x = aj.tensor([-1.0, 2.0], requires_grad=True)
    >>> optimizer = LBFGS([x], line_search_fn="strong_wolfe")
    >>> def closure():
    ...     optimizer.zero_grad()
    ...     loss = (1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2
    ...     loss.backward()
    ...     return loss
    >>> for _ in range(3):
    ...     loss = optimizer.step(closure)
    >>> bool((x - 1).abs().max() < 1e-3)
    True
    """

    _filled_later = ()
    _outside_of_traces = ("state",)     # each evaluation of a compiled closure would find another one

    def __init__(self, params: Iterable[Any], lr: float = 1, max_iter: int = 20, max_eval: int | None = None, tolerance_grad: float = 1e-7,
                 tolerance_change: float = 1e-9, history_size: int = 100, line_search_fn: str | None = None):
        if line_search_fn not in (None, "strong_wolfe"):
            raise ArgumentError(f"line_search_fn is None or 'strong_wolfe', got {line_search_fn!r}", find_user_location())
        super().__init__(params, {
            "lr": lr, "max_iter": max_iter, "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
            "tolerance_grad": tolerance_grad,
            "tolerance_change": tolerance_change, "history_size": history_size, "line_search_fn": line_search_fn})
        if len(self.param_groups) != 1:
            raise ArgumentError("LBFGS takes one group of parameters", find_user_location())

    @property
    def state(self) -> defaultdict[Tensor, dict[str, Any]]:     # type: ignore[override]
        """Directions and changes of the last steps. Raises `UnsupportedError` in compiled functions."""
        if is_tracing():
            raise UnsupportedError("the state of LBFGS is another one at each evaluation of the loss", find_user_location(),
                                   hint="read it outside of the compiled function")
        return self.__dict__["state"]       # type: ignore[no-any-return]

    @state.setter
    def state(self, state: defaultdict[Tensor, dict[str, Any]]) -> None:
        self.__dict__["state"] = state

    def _check(self, options: Mapping[str, Any]) -> None:
        if not float(options["lr"]) >= 0.0:
            raise ArgumentError(f"invalid learning rate: {options['lr']}", find_user_location())

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Take up to `max_iter` iterations; returns the loss before the first of them."""
        if is_tracing():
            raise UnsupportedError("LBFGS.step() decides on values, how often it evaluates the loss", find_user_location(),
                                   hint="compile the closure, and call optimizer.step(closure) outside of the compiled function")
        if closure is None:
            raise ArgumentError("LBFGS.step() needs the closure, which computes the loss and the gradients", find_user_location())
        group = self.param_groups[0]
        known: dict[str, Any] = self.state[group["params"][0]]
        rate, history = float(group["lr"]), group["history_size"]
        first, loss, gradient = self._evaluated(closure)
        evaluations, iterations = 1, 0
        known["func_evals"] = known.get("func_evals", 0) + 1
        if not gradient.size or np.abs(gradient).max() <= group["tolerance_grad"]:
            return first
        direction, length, scale = (_array(known.get(name)) for name in ("d", "t", "H_diag"))
        before = _array(known.get("prev_flat_grad"))
        changes, steps = ([_array(item) for item in known.get(name, ())] for name in ("old_dirs", "old_stps"))
        inverses = [float(item) for item in known.get("ro", ())]
        count, last = known.get("n_iter", 0), known.get("prev_loss")
        while iterations < group["max_iter"]:
            iterations, count = iterations + 1, count + 1
            if count == 1:
                direction, changes, steps, inverses, scale = -gradient, [], [], [], 1.0
            else:
                change, step = gradient - before, direction * length
                product = float(change @ step)
                if product > 1e-10:
                    if len(changes) == history:
                        changes, steps, inverses = changes[1:], steps[1:], inverses[1:]
                    changes.append(change)
                    steps.append(step)
                    inverses.append(1.0 / product)
                    scale = product / float(change @ change)
                direction = _direction(gradient, changes, steps, inverses, scale)
            before, last = gradient.copy(), loss
            length = min(1.0, 1.0 / float(np.abs(gradient).sum())) * rate if count == 1 else rate
            slope = float(gradient @ direction)
            if slope > -group["tolerance_change"]:
                break
            used = 0
            if group["line_search_fn"] is not None:
                start = self._gather()

                def objective(t: float, along: Vector, start: Vector = start) -> tuple[float, Vector]:
                    self._scatter(start + t * along)
                    return self._evaluated(closure)[1:]

                loss, gradient, length, used = _strong_wolfe(objective, length, direction, loss, gradient, slope)
                self._scatter(start + length * direction)
            else:
                self._scatter(self._gather() + length * direction)
                if iterations != group["max_iter"]:
                    _, loss, gradient = self._evaluated(closure)
                    used = 1
            evaluations += used
            known["func_evals"] += used
            if (iterations == group["max_iter"] or evaluations >= group["max_eval"]
                    or np.abs(gradient).max() <= group["tolerance_grad"]
                    or np.abs(direction * length).max() <= group["tolerance_change"] or abs(loss - last) < group["tolerance_change"]):
                break
        known.update(d=new_tensor(direction), t=length, old_dirs=list(map(new_tensor, changes)), old_stps=list(map(new_tensor, steps)),
                     ro=inverses, H_diag=scale, prev_flat_grad=new_tensor(before), prev_loss=last, n_iter=count)
        return first

    def _evaluated(self, closure: Callable[[], Any]) -> tuple[Any, float, Vector]:
        with enable_grad():
            loss = closure()
        gradients = [np.zeros(param.numel(), param.dtype) if param.grad is None else param.grad.detach().numpy(force=True).reshape(-1)
                     for param in self.param_groups[0]["params"]]
        number = float(loss.detach()) if hasattr(loss, "detach") else float(loss)
        return loss, number, np.concatenate(gradients)

    def _gather(self) -> Vector:
        return np.concatenate([param.detach().numpy(force=True).reshape(-1) for param in self.param_groups[0]["params"]])

    def _scatter(self, vector: Vector) -> None:
        start = 0
        with no_grad():
            for param in self.param_groups[0]["params"]:
                param.copy_(vector[start:start + param.numel()].reshape(param.shape))
                start += param.numel()

    def _misfits(self, state_dict: Mapping[str, Any]) -> list[str]:
        without = {**state_dict, "state": {}} if isinstance(state_dict, Mapping) and "state" in state_dict else state_dict
        return super()._misfits(without)

    def _loaded_state(self, name: str, value: Any, param: Any) -> Any:
        if name in ("old_dirs", "old_stps"):
            return [new_tensor(np.array(_array(item))) for item in value]
        if name in ("d", "prev_flat_grad"):
            return new_tensor(np.array(_array(value)))
        if name == "ro":
            return [float(_array(item)) for item in value]
        return float(_array(value)) if name in ("t", "H_diag", "prev_loss") else value


def _array(value: Any) -> Any:
    """Content of a tensor, ours or PyTorch's."""
    return value.detach().numpy(force=True) if hasattr(value, "detach") else value


def _direction(gradient: Vector, changes: list[Vector], steps: list[Vector], inverses: list[float], scale: float) -> Vector:
    """The two-loop recursion: minus the approximate inverse Hessian times the gradient."""
    q, factors = -gradient, [0.0] * len(changes)
    for i in reversed(range(len(changes))):
        factors[i] = float(steps[i] @ q) * inverses[i]
        q = q - factors[i] * changes[i]
    r = q * scale
    for i in range(len(changes)):
        r = r + steps[i] * (factors[i] - float(changes[i] @ r) * inverses[i])
    return r.astype(gradient.dtype)     # type: ignore[no-any-return]


def _cubic_minimum(x1: float, f1: float, g1: float, x2: float, f2: float, g2: float, bounds: tuple[float, float] | None = None) -> float:
    """Minimum between two points of the cubic polynomial with these values and slopes, within the bounds."""
    low, high = bounds if bounds is not None else (x1, x2) if x1 <= x2 else (x2, x1)
    d1 = g1 + g2 - 3 * (f1 - f2) / (x1 - x2)
    square = d1 * d1 - g1 * g2
    if not square >= 0:
        return (low + high) / 2.0
    d2 = math.sqrt(square)
    found = x2 - (x2 - x1) * ((g2 + d2 - d1) / (g2 - g1 + 2 * d2)) if x1 <= x2 else x1 - (x1 - x2) * ((g1 + d2 - d1) / (g1 - g2 + 2 * d2))
    return min(max(found, low), high)


def _strong_wolfe(objective: Objective, t: float, d: Vector, f: float, g: Vector, gtd: float, c1: float = 1e-4, c2: float = 0.9,
                  tolerance_change: float = 1e-9, max_ls: int = 25) -> tuple[float, Vector, float, int]:
    """Loss, gradient and length of a step along `d` that satisfies the strong Wolfe conditions, and the number of evaluations."""
    norm = float(np.abs(d).max())
    f_new, g_new = objective(t, d)
    evaluations, gtd_new = 1, float(g_new @ d)
    t_prev, f_prev, g_prev, gtd_prev = 0.0, f, g, gtd
    done, iteration = False, 0
    bracket: list[tuple[float, float, Vector, float]] = []
    while iteration < max_ls:       # find an interval that holds such a point
        if f_new > f + c1 * t * gtd or (iteration > 1 and f_new >= f_prev):
            bracket = [(t_prev, f_prev, g_prev, gtd_prev), (t, f_new, g_new.copy(), gtd_new)]
            break
        if abs(gtd_new) <= -c2 * gtd:
            bracket, done = [(t, f_new, g_new, gtd_new)], True
            break
        if gtd_new >= 0:
            bracket = [(t_prev, f_prev, g_prev, gtd_prev), (t, f_new, g_new.copy(), gtd_new)]
            break
        least, most, before = t + 0.01 * (t - t_prev), t * 10, t
        t = _cubic_minimum(t_prev, f_prev, gtd_prev, t, f_new, gtd_new, (least, most))
        t_prev, f_prev, g_prev, gtd_prev = before, f_new, g_new.copy(), gtd_new
        f_new, g_new = objective(t, d)
        evaluations, gtd_new, iteration = evaluations + 1, float(g_new @ d), iteration + 1
    if iteration == max_ls:
        bracket = [(0.0, f, g, gtd), (t, f_new, g_new, gtd_new)]
    slow = False
    low, high = (0, 1) if bracket[0][1] <= bracket[-1][1] else (1, 0)
    while not done and iteration < max_ls:      # narrow it
        ends = sorted(point[0] for point in bracket)
        if abs(bracket[1][0] - bracket[0][0]) * norm < tolerance_change:
            break
        t = _cubic_minimum(*(bracket[0][i] for i in (0, 1, 3)), *(bracket[1][i] for i in (0, 1, 3)))        # type: ignore[misc, arg-type]
        margin = 0.1 * (ends[1] - ends[0])
        if min(ends[1] - t, t - ends[0]) < margin:
            if slow or t >= ends[1] or t <= ends[0]:
                t = ends[1] - margin if abs(t - ends[1]) < abs(t - ends[0]) else ends[0] + margin
                slow = False
            else:
                slow = True
        else:
            slow = False
        f_new, g_new = objective(t, d)
        evaluations, gtd_new, iteration = evaluations + 1, float(g_new @ d), iteration + 1
        point = t, f_new, g_new.copy(), gtd_new
        if f_new > f + c1 * t * gtd or f_new >= bracket[low][1]:
            bracket[high] = point
            low, high = (0, 1) if bracket[0][1] <= bracket[1][1] else (1, 0)
        else:
            if abs(gtd_new) <= -c2 * gtd:
                done = True
            elif gtd_new * (bracket[high][0] - bracket[low][0]) >= 0:
                bracket[high] = bracket[low]
            bracket[low] = point
    t, f_new, g_new, _ = bracket[low if len(bracket) > 1 else 0]
    return f_new, g_new, t, evaluations
