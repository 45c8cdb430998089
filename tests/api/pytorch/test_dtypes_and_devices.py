"""PyTorch's names at the top of the package: dtypes, devices, constants, modes, generators, and the keywords that go with them."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import adjit as aj
from adjit.errors import UnsupportedError
from adjit.runtime.cuda import devices, driver

F = aj.nn.functional
DTYPES = {"float64 double": np.float64, "float32 float": np.float32, "float16 half": np.float16, "int64 long": np.int64,
          "int32 int": np.int32, "int16 short": np.int16, "int8": np.int8, "uint8": np.uint8, "uint16": np.uint16,
          "uint32": np.uint32, "uint64": np.uint64,
          "bool": np.bool_, "complex64 cfloat": np.complex64, "complex128 cdouble": np.complex128}
NAMED = [(name, dtype) for names, dtype in DTYPES.items() for name in names.split()]


@pytest.mark.parametrize(("name", "dtype"), NAMED)
def test_dtypes_are_numpys(name: str, dtype: Any) -> None:
    named = getattr(aj, name)
    assert isinstance(named, np.dtype)
    assert named == dtype
    assert aj.zeros(2, dtype=named).dtype == named
    assert aj.tensor([0, 1]).to(named).dtype == named
    assert np.zeros(2, named).dtype == dtype
    assert name in dir(aj)


def test_names_of_builtin_types_stay_pythons() -> None:
    _ = aj.bool, aj.int, aj.float
    assert not {"bool", "int", "float"} & {*vars(aj), *aj.__all__}


def test_bfloat16_can_be_named_where_its_package_is_missing() -> None:
    assert aj.bfloat16 == "bfloat16"
    assert aj.zeros(2).dtype != aj.bfloat16


@pytest.mark.parametrize(("method", "dtype"), [("long", np.int64), ("float", np.float32), ("double", np.float64), ("int", np.int32),
                                               ("bool", np.bool_), ("half", np.float16), ("short", np.int16)])
def test_dtypes_in_compiled_functions(method: str, dtype: Any) -> None:
    def converted(x: Any) -> Any:
        return getattr(x, method)(), x.to(getattr(aj, method)), x.type(getattr(aj, method))

    x = aj.tensor([0.0, 1.5, -2.5])
    for found in (*converted(x), *aj.compile(converted)(x)):
        assert found.dtype == dtype
        np.testing.assert_array_equal(found.numpy(), x.numpy().astype(dtype))


def test_type_names() -> None:
    assert [aj.zeros(1, dtype=dtype).type() for dtype in (aj.float32, aj.float64, aj.int64, aj.bool, aj.uint8, aj.float16)] == [
        "torch.FloatTensor", "torch.DoubleTensor", "torch.LongTensor", "torch.BoolTensor", "torch.ByteTensor", "torch.HalfTensor"]
    assert aj.zeros(1).type("torch.DoubleTensor").dtype == aj.float64
    assert aj.zeros(1).type("torch.cuda.ByteTensor" if aj.cuda.is_available() else "torch.ByteTensor").dtype == aj.uint8


def test_constants() -> None:
    assert (aj.pi, aj.e, aj.inf) == (np.pi, np.e, np.inf)
    assert np.isnan(aj.nan)


# -- devices


def test_devices() -> None:
    device = aj.device("cuda:1")
    assert (device.type, device.index, str(device), repr(device)) == ("cuda", 1, "cuda:1", "device(type='cuda', index=1)")
    assert device == aj.device("cuda", 1) == aj.device(device)
    assert device != aj.device("cuda")
    assert repr(aj.device(type="cpu")) == "device(type='cpu')"
    assert aj.device("cpu").index is None
    assert {aj.device("cpu"): 1}[aj.zeros(1).device] == 1
    for same in (pickle.loads(pickle.dumps(device)), copy.deepcopy(device)):
        assert (type(same), same) == (aj.device, device)


@pytest.mark.parametrize("given", [("gpu",), ("cuda:x",), ("cuda:1", 1), ("",)])
def test_texts_that_name_no_device(given: Any) -> None:
    with pytest.raises(ValueError, match="is no device"):
        aj.device(*given)


@pytest.fixture
def no_card(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ADJIT_CUDA", raising=False)
    monkeypatch.setattr(driver, "LIBRARY", "libnothing.so")
    monkeypatch.setattr(devices, "_made", {})


@pytest.mark.usefixtures("no_card")
def test_a_program_that_asks_for_cards_goes_on_with_the_cpu() -> None:
    device = aj.device("cuda" if aj.cuda.is_available() else "cpu")
    model = aj.nn.Linear(2, 2).to(device)
    x = aj.ones(3, 2, device=device).to(device, non_blocking=True)
    assert x.device.type == "cpu"
    assert not x.is_cuda
    assert aj.cuda.device_count() == 0
    assert model.to(device, aj.float64).weight.dtype == aj.float64
    assert model.to(aj.zeros(1)).weight.dtype == aj.float32
    assert model.cpu() is model
    aj.cuda.manual_seed_all(0)

    @aj.compile
    def moved(x: Any, device: Any) -> Any:
        return model(x.to(device)) + aj.zeros(2, device=x.device)

    np.testing.assert_array_equal(moved(x, device).detach().numpy(), model(x).detach().numpy())


@pytest.mark.parametrize("call", [
    lambda: aj.zeros(1).to("cuda"), lambda: aj.zeros(1).to(aj.device("cuda:0")), lambda: aj.zeros(1).cuda(),
    lambda: aj.zeros(1, device="cuda"),
    lambda: aj.nn.Linear(1, 1).cuda(), lambda: aj.nn.Linear(1, 1).to(aj.device("cuda")), lambda: aj.nn.Linear(1, 1, device="cuda"),
    lambda: aj.nn.LazyLinear(1, device="cuda"), lambda: aj.tensor(1.0, device="cuda"), lambda: aj.cuda.synchronize(),
    lambda: aj.zeros(1).cuda(1), lambda: aj.zeros(1).to("mps")])
@pytest.mark.usefixtures("no_card")
def test_devices_that_are_not_there(call: Any) -> None:
    with pytest.raises(UnsupportedError, match=r"no driver for NVIDIA|the device (cuda:1: there are 0|mps: tensors)") as caught:
        call()
    assert any(name in str(caught.value) for name in ("aj.cuda.is_available()", "aj.cuda.device_count()"))


# -- modes and keywords


def test_inference_mode() -> None:
    w = aj.ones(2, requires_grad=True)

    @aj.inference_mode()
    def with_brackets() -> Any:
        return w * 2

    @aj.inference_mode
    def without() -> Any:
        return w * 2

    with aj.inference_mode():
        inside = w * 2
        with aj.inference_mode(False):
            again = w * 2
    assert [t.requires_grad for t in (inside, again, with_brackets(), without(), w * 2)] == [False, True, False, False, True]


DRAWS: dict[str, Any] = {
    "rand": lambda g: aj.rand(3, generator=g), "randn": lambda g: aj.randn(2, 2, generator=g),
    "randperm": lambda g: aj.randperm(9, generator=g),
    "randint": lambda g: aj.randint(0, 1000, (5,), generator=g), "normal_": lambda g: aj.zeros(3).normal_(generator=g),
    "uniform_": lambda g: aj.zeros(3).uniform_(generator=g), "bernoulli_": lambda g: aj.zeros(64).bernoulli_(0.5, generator=g),
    "bernoulli": lambda g: aj.full((64,), 0.5).bernoulli(generator=g)}


@pytest.mark.parametrize("name", DRAWS)
def test_draws_of_a_generator(name: str) -> None:
    draw = DRAWS[name]
    state = aj.get_rng_state().tolist()
    generator = aj.Generator().manual_seed(5)
    first, second = draw(generator).tolist(), draw(generator).tolist()
    assert first != second
    assert draw(aj.Generator().manual_seed(5)).tolist() == first
    assert draw(aj.Generator().manual_seed(6)).tolist() != first
    assert generator.initial_seed() == 5
    assert aj.get_rng_state().tolist() == state     # the default generator is another one

    step = aj.compile(lambda: draw(generator))
    generator.manual_seed(5)
    for expected in (first, second):
        np.testing.assert_allclose(step().tolist(), expected, rtol=1e-6)


def test_randint_by_keywords() -> None:
    drawn = aj.randint(high=3, size=(200,))
    assert sorted(set(drawn.tolist())) == [0, 1, 2]
    assert sorted(set(aj.randint(2, size=(100,)).tolist())) == [0, 1]


def test_grad_takes_pytorchs_keywords() -> None:
    w, unused = aj.ones(2, requires_grad=True), aj.ones(3, requires_grad=True)
    first, second = aj.autograd.grad((w * w).sum(), [w, unused], only_inputs=True, materialize_grads=True)
    assert (first.tolist(), second.tolist()) == ([2.0, 2.0], [0.0, 0.0, 0.0])
    with pytest.raises(UnsupportedError, match="only_inputs=False"):
        aj.autograd.grad((w * w).sum(), w, only_inputs=False)


# -- inplace=


ACTIVATIONS: dict[str, tuple[Any, ...]] = {
    "relu": (), "relu6": (), "hardtanh": (-0.5, 0.5), "leaky_relu": (0.2,), "elu": (2.0,), "selu": (), "silu": (), "mish": (),
    "hardsigmoid": (), "hardswish": ()}


@pytest.mark.share(3)
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations_in_place(name: str) -> None:
    function, settings = getattr(F, name), ACTIVATIONS[name]
    array = np.array([-4.0, -0.3, 0.4, 9.0])
    expected = function(array, *settings)

    def written(x: Any, how: str) -> Any:
        hidden = x * 1.0
        result = function(hidden, *settings, True) if how == "position" else function(hidden, *settings, inplace=True)
        assert result is hidden
        return hidden

    for how in ("position", "keyword"):
        for run in (written, aj.compile(written, static="how")):
            np.testing.assert_allclose(run(array, how), expected, rtol=1e-14)
            leaf = aj.tensor(array, requires_grad=True)
            run(leaf, how).sum().backward()
            other = aj.tensor(array, requires_grad=True)
            function(other, *settings).sum().backward()
            np.testing.assert_allclose(leaf.grad.numpy(), other.grad.numpy(), rtol=1e-14)


def test_dropout_in_place() -> None:
    x = aj.ones(1000)
    assert F.dropout(x, 0.5, True, True) is x
    assert set(x.tolist()) == {0.0, 2.0}
    assert F.dropout(x, 0.5, training=False, inplace=True) is x
    with pytest.raises(TypeError, match="a key is given by name"):
        F.dropout(x, 0.5, True, 3)


def test_these_modules_are_imported_on_demand() -> None:
    code = "import sys, adjit; print([name for name in ('adjit.cuda', 'adjit.dtypes', 'adjit.nn') if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
