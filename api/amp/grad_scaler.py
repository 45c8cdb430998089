"""`GradScaler`: losses times a number that is halved where gradients overflow, and doubled after many steps in which none does."""

from __future__ import annotations

from typing import Any

from adjit.cuda import is_available
from adjit.eager.device import named
from adjit.eager.modes import no_grad
from adjit.eager.state import Stateful
from adjit.eager.tensor import Tensor
from adjit.ir.errors import ArgumentError
from adjit.tracer.user_location import find_user_location


class GradScaler(Stateful):
    """Scaler of losses, by PyTorch's formula. Not enabled, or for a device that is not there, it changes nothing.

    A step is left out where a gradient is infinite or NaN; `update` then multiplies the scale by `backoff_factor`, and by `growth_factor`
    after `growth_interval` steps in a row that were taken. Raises `ArgumentError` if gradients are unscaled twice before `update`.
    """

    def __init__(self, device: str = "cpu", init_scale: float = 65536.0, growth_factor: float = 2.0, backoff_factor: float = 0.5,
                 growth_interval: int = 2000, enabled: bool = True):
        kind = str(named(device)).partition(":")[0]
        self._enabled = enabled and (kind == "cpu" or (kind == "cuda" and is_available()))
        self._growth, self._backoff, self._interval = growth_factor, backoff_factor, growth_interval
        self._scale = init_scale
        self._taken = 0
        self._found: dict[int, bool] = {}

    def is_enabled(self) -> bool:
        """Return whether losses are scaled."""
        return self._enabled

    def get_scale(self) -> float:
        """Return the scale now, 1 if it is not enabled."""
        return self._scale if self._enabled else 1.0

    def scale(self, outputs: Any) -> Any:
        """Return a tensor, or each of a list, times the scale."""
        if not self._enabled:
            return outputs
        if isinstance(outputs, Tensor):
            return outputs * self._scale
        return type(outputs)(self.scale(item) for item in outputs)

    def unscale_(self, optimizer: Any) -> None:
        """Divide the gradients of an optimiser's parameters by the scale, for clipping them before `step`."""
        if not self._enabled:
            return
        if id(optimizer) in self._found:
            raise ArgumentError("unscale_() has already been called on this optimizer since the last update().", find_user_location())
        finite = True
        with no_grad():
            for group in optimizer.param_groups:
                for param in group["params"]:
                    if param.grad is not None:
                        param.grad.mul_(1.0 / self._scale)
                        finite = bool(param.grad.isfinite().all()) and finite
        self._found[id(optimizer)] = not finite

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """Call `optimizer.step()` if all gradients are finite; they are unscaled before, unless they are already."""
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if id(optimizer) not in self._found:
            self.unscale_(optimizer)
        return None if self._found[id(optimizer)] else optimizer.step(*args, **kwargs)

    def update(self, new_scale: Any = None) -> None:
        """Change the scale, after the steps of all optimisers."""
        if not self._enabled:
            return
        if new_scale is not None:
            self._scale = float(new_scale)
        elif any(self._found.values()):
            self._scale, self._taken = self._scale * self._backoff, 0
        else:
            self._taken += 1
            if self._taken == self._interval:
                self._scale, self._taken = self._scale * self._growth, 0
        self._found = {}

    def state_dict(self) -> dict[str, Any]:
        """Return the scale and its settings."""
        return {"scale": self._scale, "growth_factor": self._growth, "backoff_factor": self._backoff, "growth_interval": self._interval,
                "_growth_tracker": self._taken} if self._enabled else {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load what `state_dict` returned."""
        if self._enabled:
            self._scale, self._taken = state_dict["scale"], state_dict["_growth_tracker"]
            self._growth, self._backoff = state_dict["growth_factor"], state_dict["backoff_factor"]
            self._interval = state_dict["growth_interval"]
