"""Recurrent networks: `RNN`, `LSTM`, `GRU` over sequences, and `RNNCell`, `LSTMCell`, `GRUCell`, which take one step."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, overload

from adjit.eager.device import chosen
from adjit.eager.tensor import Tensor
from adjit.ir.errors import ArgumentError, ShapeError
from adjit.nn import functional, init
from adjit.nn.linear import empty_parameter
from adjit.nn.module import Module
from adjit.nn.parameter import Parameter
from adjit.nn.recurrent_cells import KINDS, both_directions, join_rows, loop_lengths, no_state, projected, split_steps, stack_steps
from adjit.nn.utils.rnn import PackedSequence, numbers
from adjit.tracer.scope import is_tracing
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

    def _add_weights(self, input_size: int, suffix: str, dtype: Any, hidden_size: int | None = None) -> None:
        rows = KINDS[self.mode].gates * self.hidden_size
        self.register_parameter(f"weight_ih{suffix}", empty_parameter((rows, input_size), dtype))
        self.register_parameter(f"weight_hh{suffix}", empty_parameter((rows, hidden_size or self.hidden_size), dtype))
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


class RNNBase(_Recurrent):
    """Base of layers over sequences, in one direction or in both; `mode` is "RNN_TANH", "RNN_RELU", "GRU" or "LSTM".

    >>> [name for name, _ in RNNBase("LSTM", 3, 4, proj_size=2).named_parameters()]
    ['weight_ih_l0', 'weight_hh_l0', 'bias_ih_l0', 'bias_hh_l0', 'weight_hr_l0']
    """

    def __init__(self, mode: str, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True, batch_first: bool = False,
                 dropout: float = 0.0, bidirectional: bool = False, proj_size: int = 0, device: Any = None, dtype: Any = None) -> None:
        super().__init__(mode, input_size, hidden_size, bias)
        if num_layers < 1:
            raise ArgumentError(f"{type(self).__name__}: at least one layer, got {num_layers}", find_user_location())
        if not 0.0 <= dropout <= 1.0:
            raise ArgumentError(f"{type(self).__name__}: dropout lies in [0, 1], got {dropout}", find_user_location())
        if dropout and num_layers == 1:
            warnings.warn(f"{type(self).__name__}: dropout={dropout} does nothing in one layer: it is between layers", stacklevel=3)
        if proj_size and (mode != "LSTM" or not 0 < proj_size < hidden_size):
            raise ArgumentError(f"{type(self).__name__}: proj_size is that of an LSTM, below its hidden_size, got {proj_size}",
                                find_user_location())
        self.proj_size = proj_size
        self.num_layers = num_layers
        self.batch_first = batch_first
        self.dropout = dropout
        self.bidirectional = bidirectional
        for layer in range(num_layers):
            size = input_size if layer == 0 else self._outputs * len(self._suffixes(layer))
            for suffix in self._suffixes(layer):
                self._add_weights(size, suffix, dtype, self._outputs)
                if proj_size:
                    self.register_parameter(f"weight_hr{suffix}", empty_parameter((proj_size, hidden_size), dtype))
        self.reset_parameters()
        self.to(device=chosen(device))

    @property
    def _outputs(self) -> int:
        """Size of the hidden state, after its projection."""
        return self.proj_size or self.hidden_size

    def flatten_parameters(self) -> None:
        """Do nothing: the weights are used where they are."""

    @property
    def all_weights(self) -> list[list[Parameter]]:
        """Parameters of each layer and direction."""
        kinds = ("weight_ih", "weight_hh", *(("bias_ih", "bias_hh") if self.bias else ()), *(("weight_hr",) if self.proj_size else ()))
        suffixes = [suffix for layer in range(self.num_layers) for suffix in self._suffixes(layer)]
        return [[getattr(self, f"{kind}{suffix}") for kind in kinds] for suffix in suffixes]

    def _suffixes(self, layer: int) -> tuple[str, ...]:
        """Suffixes of parameter names, one for each direction of a layer."""
        return (f"_l{layer}", f"_l{layer}_reverse") if self.bidirectional else (f"_l{layer}",)

    def _run(self, x: Any, first: Sequence[Tensor] | None) -> tuple[Any, list[Tensor]]:
        """Return the outputs of the last layer, and each state after the last step, (layers * directions, N, H)."""
        if isinstance(x, tuple):
            return self._run_packed(PackedSequence(*x), first)
        if x.ndim not in (2, 3) or x.shape[-1] != self.input_size:
            raise ShapeError(f"{type(self).__name__} takes (T, N, {self.input_size}), (N, T, {self.input_size}) with batch_first, or "
                             f"(T, {self.input_size}) for one sequence; got the shape {x.shape}", find_user_location())
        swap = self.batch_first and x.ndim == 3
        sequence = x.transpose(0, 1) if swap else x
        if not sequence.shape[0]:
            raise ShapeError(f"{type(self).__name__}: a sequence has at least one step, got the shape {x.shape}", find_user_location())
        sequence, last = self._layers(sequence, first, sequence.shape[1:-1], None)
        return (sequence.transpose(0, 1) if swap else sequence), last

    def _run_packed(self, packed: PackedSequence, first: Sequence[Tensor] | None) -> tuple[PackedSequence, list[Tensor]]:
        """Do the same with sequences of different lengths; states are in their original order."""
        data, batch_sizes, order, inverse = packed
        if data.ndim != 2 or data.shape[-1] != self.input_size:
            raise ShapeError(f"{type(self).__name__} takes packed sequences with {self.input_size} features, got the shape {data.shape}",
                             find_user_location())
        sizes = numbers(batch_sizes)
        if first is not None and order is not None:
            first = [state.index_select(1, order) for state in first]
        data, last = self._layers(data, first, (sizes[0],), sizes)
        return packed._replace(data=data), last if inverse is None else [state.index_select(1, inverse) for state in last]

    def _layers(self, sequence: Tensor, first: Sequence[Tensor] | None, batch: tuple[int, ...],
                sizes: list[int] | None) -> tuple[Tensor, list[Tensor]]:
        suffixes = [self._suffixes(layer) for layer in range(self.num_layers)]
        if first is not None:
            count = sum(map(len, suffixes))
            self._check_states(first[:1], (count, *batch, self._outputs))
            self._check_states(first[1:], (count, *batch, self.hidden_size))
        last: list[list[Tensor]] = [[] for _ in range(KINDS[self.mode].states)]
        for layer, names in enumerate(suffixes):
            outputs = []
            for suffix in names:
                begin = None if first is None else [state[len(last[0])] for state in first]
                hidden, end = self._direction(sequence, suffix, begin, sizes)
                outputs.append(hidden)
                for ended, state in zip(last, end, strict=True):
                    ended.append(state)
            sequence = both_directions(*outputs) if self.bidirectional else outputs[0]
            if self.dropout and layer < self.num_layers - 1:
                sequence = functional.dropout(sequence, self.dropout, self.training)
        return sequence, [stack_steps(ended) for ended in last]

    def _direction(self, sequence: Tensor, suffix: str, first: Sequence[Tensor] | None,
                   sizes: list[int] | None) -> tuple[Tensor, Sequence[Tensor]]:
        """Run one direction of one layer: returns the hidden states of all steps, and all states after the last one.

        Packed sequences have `sizes`, the number of them that have each step: those that have ended leave the states, or, backwards, those
        that begin join them.
        """
        kind, backwards = KINDS[self.mode], suffix.endswith("reverse")
        weight, bias = getattr(self, f"weight_hh{suffix}"), getattr(self, f"bias_hh{suffix}")
        projection = getattr(self, f"weight_hr{suffix}") if self.proj_size else None
        gates = functional.linear(sequence, getattr(self, f"weight_ih{suffix}"), getattr(self, f"bias_ih{suffix}"))
        if first is None:
            rows = gates[0] if sizes is None else gates[:sizes[0]]
            first = [no_state(rows, self._outputs), *[no_state(rows, self.hidden_size)] * (kind.states - 1)]
        if sizes is None:
            return _loops(kind.layer, gates, first, weight, bias, projection, backwards)
        steps = split_steps(gates, sizes)
        states: Sequence[Tensor] = [state[:sizes[-1]] for state in first] if backwards else first
        hidden: list[Tensor] = []
        ended: list[Sequence[Tensor]] = []
        for gates in reversed(steps) if backwards else steps:
            count, before = gates.shape[0], states[0].shape[0]
            if count < before:
                ended.append([state[count:] for state in states])
                states = [state[:count] for state in states]
            elif count > before:
                states = [join_rows([state, begin[before:count]]) for state, begin in zip(states, first, strict=True)]
            states = kind.step(gates, *states, weight, bias)
            if projection is not None:
                states = (projected(states[0], projection), *states[1:])
            hidden.append(states[0])
        if ended:
            states = [join_rows(parts) for parts in zip(states, *reversed(ended), strict=True)]
        return join_rows(hidden[::-1] if backwards else hidden), states

    def extra_repr(self) -> str:
        parts = [f"{self.input_size}, {self.hidden_size}"]
        parts += [f"proj_size={self.proj_size}"] if self.proj_size else []
        parts += [f"num_layers={self.num_layers}"] if self.num_layers != 1 else []
        parts += ["bias=False"] if not self.bias else []
        parts += ["batch_first=True"] if self.batch_first else []
        parts += [f"dropout={self.dropout}"] if self.dropout else []
        parts += ["bidirectional=True"] if self.bidirectional else []
        return ", ".join(parts)


def _loops(layer: Callable[..., Any], gates: Tensor, states: Sequence[Tensor], weight: Tensor, bias: Tensor | None,
           projection: Tensor | None, backwards: bool) -> tuple[Tensor, Sequence[Tensor]]:
    """Take all steps of a sequence: as one loop in a trace, else as several."""
    lengths = [gates.shape[0]] if is_tracing() else loop_lengths(gates.shape[0])
    parts = split_steps(gates, lengths) if len(lengths) > 1 else [gates]
    hidden: list[Tensor] = []
    for part in reversed(parts) if backwards else parts:
        rows, *states = layer(part, tuple(states), weight, bias, projection, backwards)
        hidden.append(rows)
    return (join_rows(hidden[::-1] if backwards else hidden) if len(hidden) > 1 else hidden[0]), states


class _OneState(RNNBase):
    """Base of networks whose only state is the hidden state."""

    if TYPE_CHECKING:
        @overload
        def __call__(self, x: Tensor, hx: Tensor | None = None) -> tuple[Tensor, Tensor]: ...
        @overload
        def __call__(self, x: PackedSequence, hx: Tensor | None = None) -> tuple[PackedSequence, Tensor]: ...
        def __call__(self, x: Any, hx: Any = None) -> Any: ...

    @overload
    def forward(self, x: Tensor, hx: Tensor | None = None) -> tuple[Tensor, Tensor]: ...
    @overload
    def forward(self, x: PackedSequence, hx: Tensor | None = None) -> tuple[PackedSequence, Tensor]: ...
    def forward(self, x: Any, hx: Tensor | None = None) -> tuple[Any, Tensor]:
        """Return the outputs of the last layer (T, N, directions * H) and the last hidden states (layers * directions, N, H), of inputs (T,
        N, input_size) and first hidden states, by default zeros. With `batch_first`, N comes before T; without N for one sequence. Of a
        `PackedSequence`, the outputs are one too."""
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
        mode = f"RNN_{nonlinearity.upper()}"
        super().__init__(mode, input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, dtype=dtype)
        self.nonlinearity = nonlinearity
        self.to(device=chosen(device))


class GRU(_OneState):
    """Gated recurrent units; arguments and names as in `RNN`, weights hold the gates reset, update, new below each other.

    >>> import adjit
    >>> output, last = GRU(3, 4)(adjit.zeros(5, 2, 3))
    >>> output.shape, last.shape
    ((5, 2, 4), (1, 2, 4))
    """

    def __init__(self, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True, batch_first: bool = False,
                 dropout: float = 0.0, bidirectional: bool = False, device: Any = None, dtype: Any = None) -> None:
        super().__init__("GRU", input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, dtype=dtype)
        self.to(device=chosen(device))


class LSTM(RNNBase):
    """Long short-term memory; arguments and names as in `RNN`, weights hold the gates input, forget, content, output below each other.

    With `proj_size` the hidden state is multiplied with weight_hr_l0, (proj_size, hidden_size), and has that size.

    >>> import adjit
    >>> output, (hidden, content) = LSTM(3, 4, num_layers=2)(adjit.zeros(5, 2, 3))
    >>> output.shape, hidden.shape, content.shape
    ((5, 2, 4), (2, 2, 4), (2, 2, 4))
    """

    def __init__(self, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True, batch_first: bool = False,
                 dropout: float = 0.0, bidirectional: bool = False, proj_size: int = 0, device: Any = None, dtype: Any = None) -> None:
        super().__init__("LSTM", input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, proj_size, dtype=dtype)
        self.to(device=chosen(device))

    if TYPE_CHECKING:
        @overload
        def __call__(self, x: Tensor, hx: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, tuple[Tensor, Tensor]]: ...
        @overload
        def __call__(self, x: PackedSequence, hx: tuple[Tensor, Tensor] | None = None
                     ) -> tuple[PackedSequence, tuple[Tensor, Tensor]]: ...
        def __call__(self, x: Any, hx: Any = None) -> Any: ...

    @overload
    def forward(self, x: Tensor, hx: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, tuple[Tensor, Tensor]]: ...
    @overload
    def forward(self, x: PackedSequence, hx: tuple[Tensor, Tensor] | None = None) -> tuple[PackedSequence, tuple[Tensor, Tensor]]: ...
    def forward(self, x: Any, hx: tuple[Tensor, Tensor] | None = None) -> tuple[Any, tuple[Tensor, Tensor]]:
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
        super().__init__(f"RNN_{nonlinearity.upper()}", input_size, hidden_size, bias, dtype)
        self.nonlinearity = nonlinearity
        self.to(device=chosen(device))

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
        super().__init__("GRU", input_size, hidden_size, bias, dtype)
        self.to(device=chosen(device))

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
        super().__init__("LSTM", input_size, hidden_size, bias, dtype)
        self.to(device=chosen(device))

    def forward(self, x: Tensor, hx: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]:
        """Return the next hidden state and cell, (N, H) each, of inputs (N, input_size) and this pair, by default zeros; or all without N.
        """
        hidden, cell = self._step(x, hx)
        return hidden, cell
