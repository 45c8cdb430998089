"""Names that do not exist: the message says so, and names the nearest one there is."""

from __future__ import annotations

from typing import Any

import pytest

import adjit as aj


@pytest.mark.parametrize(("module", "name", "message"), [
    (aj, "stak", "module 'adjit' has no attribute 'stak'; did you mean 'stack'?"),
    (aj, "vlaue_and_grad", "did you mean 'value_and_grad'?"),
    (aj, "grad_named", "; aj.grad(f, argnames=...)"),
    (aj, "PRNGKey", "; aj.random.key(seed)"),
    (aj.nn, "Liner", "module 'adjit.nn' has no attribute 'Liner'; did you mean 'Linear'?"),
    (aj.nn.functional, "rellu", "did you mean 'relu'?"),
    (aj.numpy, "summ", "module 'adjit.numpy' has no attribute 'summ': there is no numpy.summ; did you mean 'sum'?"),
    (aj.numpy, "random", "or draw outside and pass the numbers"),
    (aj.random, "PRNGKey", "module 'adjit.random' has no attribute 'PRNGKey'; adjit.random has key(seed)"),
    (aj.random, "unifrom", "did you mean 'uniform'?"),
    (aj.special, "gamaln", "has no attribute 'gamaln': there is no such function with a rule; did you mean 'gammaln'?"),
])
def test_the_nearest_name_is_named(module: Any, name: str, message: str) -> None:
    with pytest.raises(AttributeError) as caught:
        getattr(module, name)
    assert str(caught.value).endswith(message)


def test_scipys_functions_without_a_rule_are_named_as_such() -> None:
    pytest.importorskip("scipy.special")
    with pytest.raises(AttributeError, match=r"scipy\.special\.mathieu_a has no rule"):
        _ = aj.special.mathieu_a


def test_optimizers_name_their_parameters() -> None:
    parameters = [aj.nn.Parameter(aj.ones(2))]
    with pytest.raises(TypeError, match=r"Adam\(\) got .* 'learning_rate'; its parameters are params, lr, betas, eps"):
        aj.optim.Adam(parameters, learning_rate=0.1)
    aj.optim.Adam(parameters, foreach=True, fused=False)
