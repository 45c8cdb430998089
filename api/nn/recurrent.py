"""Recurrent networks: `RNN`, `LSTM`, `GRU` over sequences, and `RNNCell`, `LSTMCell`, `GRUCell`, which take one step."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any, Literal

from adjit.eager.device import check_device
from adjit.eager.tensor import Tensor
from adjit.ir.errors import ArgumentError, ShapeError
from adjit.nn import functional, init
from adjit.nn.linear import empty_parameter
from adjit.nn.module import Module
from adjit.nn.recurrent_cells import KINDS, both_directions, no_state, stack_steps, unbind_steps
from adjit.tracer.user_location import find_user_location

Nonlinearity = Literal["tanh", "relu"]


class _Recurrent(Module):
    """Base of weights of one kind of network, all uniform in (-k, k) with k = 1 / sqrt(hidden_size)."""

    def __init__(self, mode: str, input_size: int, hidden_size: int, bias: bool) -> None:
        super().__init__()
        if mode not in KINDS:
            raise ArgumentError(f"{type(self).__name__}: nonlinearity is 'tanh' or 'relu'", find_user_location())
        if hidden_size < 1:
            raise ArgumentError(f"{type(self).__name__}: hidden_size is positive, got {hidden_size}", find_user_location())
        self.mode = mode
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias

    def _add_weights(self, input_size: int, suffix: str, dtype: Any) -> None:
        rows = KINDS[self.mode].gates * self.hidden_size
        self.register_parameter(f"weight_ih{suffix}", empty_parameter((rows, input_size), dtype))
        self.register_parameter(f"weight_hh{suffix}", empty_parameter((rows, self.hidden_size), dtype))
        self.register_parameter(f"bias_ih{suffix}", empty_parameter((rows,), dtype) if self.bias else None)
        self.register_parameter(f"bias_hh{suffix}", empty_parameter((rows,), dtype) if self.bias else None)

    def reset_parameters(self) -> None:
        """Draw new initial values."""
        bound = 1.0 / math.sqrt(self.hidden_size)
        for parameter in self.parameters():
            init.uniform_(parameter, -bound, bound)

    def _check_states(self, states: Sequence[Tensor], expected: tuple[int, ...]) -> None:
        for state in states:
            if tuple(state.shape) != expected:
                raise ShapeError(f"{type(self).__name__}: the first states have the shape {expected}, got {tuple(state.shape)}",
                                 find_user_location())


# -- over sequences


class _Network(_Recurrent):
    """Base of layers over sequences, in one direction or in both."""

    def __init__(self, mode: str, input_size: int, hidden_size: int, num_layers: int, bias: bool, batch_first: bool, dropout: float,
                 bidirectional: bool, dtype: Any) -> None:
        super().__init__(mode, input_size, hidden_size, bias)
        if num_layers < 1:
            raise ArgumentError(f"{type(self).__name__}: at least one layer, got {num_layers}", find_user_location())
        if not 0.0 <= dropout <= 1.0:
            raise ArgumentError(f"{type(self).__name__}: dropout lies in [0, 1], got {dropout}", find_user_location())
        if dropout and num_layers == 1:
            warnings.warn(f"{type(self).__name__}: dropout={dropout} does nothing in one layer: it is between layers", stacklevel=3)
        self.num_layers = num_layers
        self.batch_first = batch_first
        self.dropout = dropout
        self.bidirectional = bidirectional
        for layer in range(num_layers):
            size = input_size if layer == 0 else hidden_size * len(self._suffixes(layer))
            for suffix in self._suffixes(layer):
                self._add_weights(size, suffix, dtype)
        self.reset_parameters()

    def _suffixes(self, layer: int) -> tuple[str, ...]:
        """Suffixes of parameter names, one for each direction of a layer."""
        return (f"_l{layer}", f"_l{layer}_reverse") if self.bidirectional else (f"_l{layer}",)

    def _run(self, x: Tensor, first: Sequence[Tensor] | None) -> tuple[Tensor, list[Tensor]]:
        """Return the outputs of the last layer, and each state after the last step, (layers * directions, N, H)."""
        if x.ndim not in (2, 3) or x.shape[-1] != self.input_size:
            raise ShapeError(f"{type(self).__name__} takes (T, N, {self.input_size}), (N, T, {self.input_size}) with batch_first, or "
                             f"(T, {self.input_size}) for one sequence; got the shape {x.shape}", find_user_location())
        swap = self.batch_first and x.ndim == 3
        sequence = x.transpose(0, 1) if swap else x
        if not sequence.shape[0]:
            raise ShapeError(f"{type(self).__name__}: a sequence has at least one step, got the shape {x.shape}", find_user_location())
        suffixes = [self._suffixes(layer) for layer in range(self.num_layers)]
        if first is not None:
            self._check_states(first, (sum(map(len, suffixes)), *sequence.shape[1:-1], self.hidden_size))
        last: list[list[Tensor]] = [[] for _ in range(KINDS[self.mode].states)]
        for layer, names in enumerate(suffixes):
            outputs = []
            for suffix in names:
                begin = None if first is None else [state[len(last[0])] for state in first]
                hidden, end = self._direction(sequence, suffix, begin)
                outputs.append(stack_steps(hidden))
                for ended, state in zip(last, end, strict=True):
                    ended.append(state)
            sequence = both_directions(*outputs) if self.bidirectional else outputs[0]
            if self.dropout and layer < self.num_layers - 1:
                sequence = functional.dropout(sequence, self.dropout, self.training)
        return (sequence.transpose(0, 1) if swap else sequence), [stack_steps(ended) for ended in last]

    def _direction(self, sequence: Tensor, suffix: str, states: Sequence[Tensor] | None) -> tuple[list[Tensor], Sequence[Tensor]]:
        """Run one direction of one layer: returns the hidden states of all steps, and all states after the last one."""
        kind, parameters, backwards = KINDS[self.mode], self.__dict__, suffix.endswith("reverse")
        weight, bias = parameters[f"weight_hh{suffix}"], parameters[f"bias_hh{suffix}"]
        steps = unbind_steps(functional.linear(sequence, parameters[f"weight_ih{suffix}"], parameters[f"bias_ih{suffix}"]))
        states = [no_state(steps[0], self.hidden_size)] * kind.states if states is None else states
        hidden: list[Tensor] = []
        for gates in reversed(steps) if backwards else steps:
            states = kind.step(gates, *states, weight, bias)
            hidden.append(states[0])
        return (hidden[::-1] if backwards else hidden), states

    def extra_repr(self) -> str:
        parts = [f"{self.input_size}, {self.hidden_size}"]
        parts += [f"num_layers={self.num_layers}"] if self.num_layers != 1 else []
        parts += ["bias=False"] if not self.bias else []
        parts += ["batch_first=True"] if self.batch_first else []
        parts += [f"dropout={self.dropout}"] if self.dropout else []
        parts += ["bidirectional=True"] if self.bidirectional else []
        return ", ".join(parts)


class _OneState(_Network):
    """Base of networks whose only state is the hidden state."""

    def forward(self, x: Tensor, hx: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return the outputs of the last layer (T, N, directions * H) and the last hidden states (layers * directions, N, H), of inputs (T,
        N, input_size) and first hidden states, by default zeros. With `batch_first`, N comes before T; without N for one sequence."""
        output, (last,) = self._run(x, None if hx is None else [hx])
        return output, last


class RNN(_OneState):
    """Elman network, `num_layers` of h' = tanh(W_ih x + b_ih + W_hh h + b_hh), or relu.

    `dropout` acts on the outputs of all layers but the last, in training. Parameters: weight_ih_l0, weight_hh_l0, bias_ih_l0, bias_hh_l0,
    and so on for each layer; the suffix "_reverse" marks the other direction.

    >>> import numpy as np
    >>> from adjit.eager.tensor import as_tensor
    >>> output, last = RNN(3, 4)(as_tensor(np.zeros((5, 2, 3), np.float32)))
    >>> output.shape, last.shape
    ((5, 2, 4), (1, 2, 4))
    """

    def __init__(self, input_size: int, hidden_size: int, num_layers: int = 1, nonlinearity: Nonlinearity = "tanh", bias: bool = True,
                 batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False, device: Any = None,
                 dtype: Any = None) -> None:
        check_device(device)
        mode = f"RNN_{nonlinearity.upper()}"
        super().__init__(mode, input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, dtype)
        self.nonlinearity = nonlinearity


class GRU(_OneState):
    """Gated recurrent units; arguments and names as in `RNN`, weights hold the gates reset, update, new below each other.

    >>> import adjit
    >>> output, last = GRU(3, 4)(adjit.zeros(5, 2, 3))
    >>> output.shape, last.shape
    ((5, 2, 4), (1, 2, 4))
    """

    def __init__(self, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True, batch_first: bool = False,
                 dropout: float = 0.0, bidirectional: bool = False, device: Any = None, dtype: Any = None) -> None:
        check_device(device)
        super().__init__("GRU", input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, dtype)


class LSTM(_Network):
    """Long short-term memory; arguments and names as in `RNN`, weights hold the gates input, forget, content, output below each other.

    >>> import adjit
    >>> output, (hidden, content) = LSTM(3, 4, num_layers=2)(adjit.zeros(5, 2, 3))
    >>> output.shape, hidden.shape, content.shape
    ((5, 2, 4), (2, 2, 4), (2, 2, 4))
    """

    def __init__(self, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True, batch_first: bool = False,
                 dropout: float = 0.0, bidirectional: bool = False, device: Any = None, dtype: Any = None) -> None:
        check_device(device)
        super().__init__("LSTM", input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, dtype)

    def forward(self, x: Tensor, hx: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Compute outputs and states like `RNN`, with pairs (hidden states, cells) in place of hidden states."""
        output, (hidden, cell) = self._run(x, hx)
        return output, (hidden, cell)


# -- one step


class _Cell(_Recurrent):
    """Base of single steps of a network."""

    def __init__(self, mode: str, input_size: int, hidden_size: int, bias: bool, dtype: Any) -> None:
        super().__init__(mode, input_size, hidden_size, bias)
        self._add_weights(input_size, "", dtype)
        self.reset_parameters()

    def _step(self, x: Tensor, states: Sequence[Tensor] | None) -> Sequence[Tensor]:
        if x.ndim not in (1, 2) or x.shape[-1] != self.input_size:
            raise ShapeError(f"{type(self).__name__} takes (N, {self.input_size}) or ({self.input_size},), got the shape {x.shape}",
                             find_user_location())
        kind = KINDS[self.mode]
        gates = functional.linear(x, self.weight_ih, self.bias_ih)
        if states is None:
            states = [no_state(gates, self.hidden_size)] * kind.states
        self._check_states(states, (*x.shape[:-1], self.hidden_size))
        return kind.step(gates, *states, self.weight_hh, self.bias_hh)

    def extra_repr(self) -> str:
        return f"{self.input_size}, {self.hidden_size}{'' if self.bias else ', bias=False'}"


class RNNCell(_Cell):
    """One step h' = tanh(W_ih x + b_ih + W_hh h + b_hh), or relu. Parameters: weight_ih, weight_hh, bias_ih, bias_hh.

    >>> import adjit
    >>> RNNCell(3, 4)(adjit.zeros(2, 3)).shape
    (2, 4)
    """

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, nonlinearity: Nonlinearity = "tanh",
                 device: Any = None, dtype: Any = None) -> None:
        check_device(device)
        super().__init__(f"RNN_{nonlinearity.upper()}", input_size, hidden_size, bias, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, x: Tensor, hx: Tensor | None = None) -> Tensor:
        """Return the next hidden state (N, H), of inputs (N, input_size) and the hidden state, by default zeros; or both without N."""
        return self._step(x, None if hx is None else [hx])[0]


class GRUCell(_Cell):
    """One step of gated recurrent units. Parameters: weight_ih, weight_hh, bias_ih, bias_hh.

    >>> import adjit
    >>> GRUCell(3, 4)(adjit.zeros(2, 3)).shape
    (2, 4)
    """

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None) -> None:
        check_device(device)
        super().__init__("GRU", input_size, hidden_size, bias, dtype)

    def forward(self, x: Tensor, hx: Tensor | None = None) -> Tensor:
        """Return the next hidden state (N, H), of inputs (N, input_size) and the hidden state, by default zeros; or both without N."""
        return self._step(x, None if hx is None else [hx])[0]


class LSTMCell(_Cell):
    """One step of long short-term memory. Parameters: weight_ih, weight_hh, bias_ih, bias_hh.

    >>> import adjit
    >>> hidden, content = LSTMCell(3, 4)(adjit.zeros(2, 3))
    >>> hidden.shape, content.shape
    ((2, 4), (2, 4))
    """

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None) -> None:
        check_device(device)
        super().__init__("LSTM", input_size, hidden_size, bias, dtype)

    def forward(self, x: Tensor, hx: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]:
        """Return the next hidden state and cell, (N, H) each, of inputs (N, input_size) and this pair, by default zeros; or all without N.
        """
        hidden, cell = self._step(x, hx)
        return hidden, cell
