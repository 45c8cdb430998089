"""Programs as ONNX models, run by onnxruntime where it is installed, else by the reference implementation of the package onnx."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.each import for_each
from support.op_cases import op_cases, type_of

import adjit as aj
from adjit import nn
from adjit.errors import ExportError, UnsupportedError
from adjit.ir.builder import trace_graph
from adjit.ir.definition import DEFINITIONS, OpDefinition, Sample

onnx = pytest.importorskip("onnx", reason="ONNX files are written by the package onnx")
RNG = np.random.default_rng(0)


def floats(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


HAS_RUNTIME = find_spec("onnxruntime") is not None


def run(path: Path, *arrays: Any) -> list[np.ndarray]:
    """Results of a model for its inputs in their order."""
    given = [x.numpy() if isinstance(x, aj.Tensor) else np.asarray(x) for x in arrays]
    if not HAS_RUNTIME:
        from onnx.reference import ReferenceEvaluator

        model = ReferenceEvaluator(str(path))
        names = model.input_names
    else:
        import onnxruntime

        model = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        names = [each.name for each in model.get_inputs()]
    return model.run(None, dict(zip(names, given, strict=True)))        # type: ignore[no-any-return]


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.LSTM(6, 8, num_layers=2, batch_first=True, bidirectional=True)
        self.out = nn.Linear(16, 3)

    def forward(self, x: aj.Tensor) -> Any:
        y, (h, _) = self.layer(x)
        return self.out(y[:, -1]), h


class Gated(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer, self.out = nn.GRU(6, 8), nn.Linear(8, 3)

    def forward(self, x: aj.Tensor) -> Any:
        return self.out(self.layer(x)[0])


class Characters(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.attention, self.out = nn.Embedding(20, 8), nn.MultiheadAttention(8, 2, batch_first=True), nn.Linear(8, 20)

    def forward(self, indices: aj.Tensor) -> Any:
        x = self.embedding(indices)
        mask = nn.Transformer.generate_square_subsequent_mask(indices.shape[1])
        return self.out(x + self.attention(x, x, x, need_weights=False, attn_mask=mask)[0])


class Autoencoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(9, 4), nn.Softplus(), nn.Linear(4, 9), nn.Hardswish())

    def forward(self, x: aj.Tensor) -> Any:
        y = self.inner(x)
        return {"made": y, "error": ((x - y) ** 2).mean(dim=1)}


MODELS: dict[str, Callable[[], tuple[Any, Any]]] = {
    "digits": lambda: (nn.Sequential(nn.Conv2d(1, 4, 3, padding=1, stride=2), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                                     nn.Linear(16, 5), nn.Softmax(-1)), floats(2, 1, 8, 8)),
    "layers": lambda: (nn.Sequential(nn.Linear(10, 20), nn.Tanh(), nn.Linear(20, 20), nn.SiLU(), nn.Dropout(0.5), nn.LayerNorm(20),
                                     nn.GELU(), nn.Linear(20, 3), nn.LogSoftmax(-1)), floats(7, 10)),
    "lstm": lambda: (Recurrent(), floats(4, 30, 6)),
    "gru": lambda: (Gated(), floats(5, 4, 6)),
    "encoder": lambda: (nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 4, 32, batch_first=True), 2), floats(2, 9, 16)),
    "characters": lambda: (Characters(), RNG.integers(0, 20, size=(3, 7))),
    "images": lambda: (nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.AvgPool2d(2), nn.ConvTranspose2d(4, 2, 2, stride=2),
                                     nn.Upsample(scale_factor=2, mode="bilinear"), nn.Sigmoid()), floats(1, 1, 8, 8)),
    "sound": lambda: (nn.Sequential(nn.Conv1d(3, 6, 5, dilation=2, padding=4, groups=3), nn.ELU(), nn.AdaptiveAvgPool1d(3),
                                    nn.GroupNorm(2, 6), nn.PReLU()), floats(2, 3, 20)),
    "volumes": lambda: (nn.Sequential(nn.Conv3d(1, 2, 3), nn.MaxPool3d(2, padding=1), nn.InstanceNorm3d(2)), floats(1, 1, 8, 8, 8)),
    "autoencoder": lambda: (Autoencoder(), floats(6, 9)),
}


@pytest.mark.parametrize("name", MODELS)
def test_models(name: str, tmp_path: Path) -> None:
    model, given = MODELS[name]()
    model.eval()
    x = aj.tensor(given)
    aj.onnx.export(model, x, tmp_path / "model.onnx")
    with aj.no_grad():
        wanted = model(x)
    parts = list(wanted.values()) if isinstance(wanted, dict) else wanted if isinstance(wanted, tuple) else (wanted,)
    found = run(tmp_path / "model.onnx", x)
    assert len(found) == len(parts)
    for result, part in zip(found, parts, strict=True):
        assert result.dtype == part.numpy().dtype
        np.testing.assert_allclose(result, part.numpy(), rtol=2e-6, atol=2e-6)
    written = onnx.load(tmp_path / "model.onnx")
    stored = {array.name: onnx.numpy_helper.to_array(array) for array in written.graph.initializer}
    for key, parameter in model.state_dict().items():
        if f"self.{key}" in stored:
            np.testing.assert_array_equal(stored[f"self.{key}"], parameter.numpy())
    assert any(f"self.{key}" in stored for key in model.state_dict())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.onnx"]


def rolled(x: Any) -> Any:
    state, out = np.zeros(3, np.float32), []
    for row in x:
        for factor in (0.5, 1.5):
            state = np.tanh(factor * state * state[::-1] + row) + np.cos(state) * row[0]
            state = state / np.sqrt(np.sum(state ** 2) + 1)
        out.append(state)
    return np.array(out), state


def newton(x: Any) -> Any:
    y = x
    while np.abs(y * y - 2) > 1e-3:
        y = y - (y * y - 2) / (2 * y)
    return y


def filled(x: Any) -> Any:
    y = np.zeros((6, 4), np.float32)
    y[::2, 1:3] = x
    y[1] += 2 * x[0, 0]
    np.add.at(y, np.array([4, 4]), x[:2, :1])
    return y, np.pad(x, ((1, 2), (0, 1))), np.flip(x, 1), np.concatenate([x, x[:1]])


PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "functions": (lambda x, w: (np.mean(np.logaddexp(x @ w, 0.0), axis=0), np.cumsum(np.sort(x, axis=1), axis=1), np.argmax(x, axis=1),
                                x[::-1, 1:], np.expm1(x), np.any(x > 2, axis=0)), (floats(4, 5), floats(5, 2))),
    "a Python loop": (rolled, (floats(60, 3),)),
    "a loop backwards": (lambda x: aj.scan(lambda c, r: (c * 0.5 + r, c), np.zeros(2, np.float32), x, reverse=True), (floats(9, 2),)),
    "a loop without slices": (lambda x: aj.fori_loop(0, 5, lambda i, c: c * 0.5 + i.astype(np.float32), x), (floats(3),)),
    "a loop on values": (newton, (np.float32(3.0),)),
    "a branch": (lambda x, y: aj.cond(np.sum(x) > y, lambda x: (x * y, x), lambda x: (x - 1, x), x), (floats(4), np.float32(0.1))),
    "writes": (filled, (floats(3, 2),)),
    "a gradient": (lambda w, x: aj.grad(lambda w: np.sum(np.tanh(x @ w) ** 2))(w), (floats(3, 2), floats(5, 3))),
    "an argument that is a result": (lambda x: (x, x), (floats(2),)),
    "float64": (lambda x: np.exp(-x ** 2) * np.sin(x), (RNG.normal(size=5),)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str, tmp_path: Path) -> None:
    function, arrays = PROGRAMS[name]
    compiled = aj.compile(function)
    (path,) = compiled.export(tmp_path / "program.onnx", *arrays)
    wanted = compiled(*arrays)
    for result, part in zip(run(path, *arrays), wanted if isinstance(wanted, tuple) else (wanted,), strict=True):
        assert (result.dtype, result.shape) == (np.asarray(part).dtype, np.shape(part))
        np.testing.assert_allclose(result, part, rtol=1e-5, atol=2e-6)
    if name == "a Python loop":
        assert "Scan" in {node.op_type for node in onnx.load(path).graph.node}


REFUSED = {
    "arctan2", "banded_solve", "bitcast", "cholesky", "column_order", "complex", "complex_matmul", "conj",
    "convolution_kernel_gradient", "cummax", "cummin", "cumprod", "digamma", "eig", "eigh", "eigvals", "eigvalsh", "erfc", "erfcx",
    "erfinv", "external", "fft", "i0e", "i1e", "imag", "inverse", "irfft", "left_shift", "lgamma", "lu", "lu_inverse", "lu_solve", "philox",
    "qr", "qr_raw", "real", "rfft", "right_shift", "svd", "svdvals", "sylvester", "triangular_solve", "trigamma", "view_as_complex",
    "view_as_real", "window_max_scatter", "window_max_share", "window_max_take"}


def test_samples_of_every_op() -> None:
    """An op is computed by ONNX's reference implementation as by its record, for every dtype that ONNX's operators take, or refused."""
    from onnx.reference import ReferenceEvaluator

    from adjit.codegen.onnx.model import make_model

    made: dict[str, int] = {}

    def check(definition: OpDefinition, sample: Sample) -> None:
        graph = trace_graph(definition.name, [type_of(array) for array in sample.arrays],
                            lambda *values: list(definition.emit(*values, **sample.attrs)))
        names = [f"x{number}" for number in range(len(sample.arrays))]
        made.setdefault(definition.name, 0)
        try:
            model = make_model(graph, names, {}, [f"y{number}" for number in range(len(graph.results))])
        except ExportError:
            return
        made[definition.name] += any(result.type.size for result in graph.results)
        with np.errstate(all="ignore"):
            wanted = definition.evaluate(*(array.copy() for array in sample.arrays), **sample.attrs)
            found = ReferenceEvaluator(model).run(None, dict(zip(names, sample.arrays, strict=True)))
        for result, expected in zip(found, wanted if isinstance(wanted, tuple) else (wanted,), strict=True):
            assert (np.asarray(result).dtype, np.shape(result)) == (expected.dtype, expected.shape)
            near = 1e-6 if expected.dtype == np.float32 or definition.name == "erf" else 1e-12      # its `erf` is that of float32
            np.testing.assert_allclose(result, expected, rtol=near, atol=1e-12)

    def of_numbers_that_fit(definition: OpDefinition, sample: Sample) -> bool:
        """False for floats that no integer holds: what becomes of these differs."""
        return definition.name != "convert" or sample.arrays[0].dtype.kind != "f" or sample.attrs["dtype"].kind not in "iu" or bool(
            np.all(np.abs(sample.arrays[0]) < 100))

    for_each(((name, (definition, sample)) for name, definition, sample in op_cases() if of_numbers_that_fit(definition, sample)), check)
    assert {name for name, count in made.items() if not count} == REFUSED
    assert all(DEFINITIONS[name].kind.name != "MOVEMENT" or name.startswith("view_as") for name in REFUSED)


def test_names(tmp_path: Path) -> None:
    model = nn.Linear(2, 1).eval()
    aj.onnx.export(model, (aj.ones(3, 2),), tmp_path / "model.onnx", input_names=["points"], output_names=["heights"])
    graph = onnx.load(tmp_path / "model.onnx").graph
    assert ([each.name for each in graph.input], [each.name for each in graph.output]) == (["points"], ["heights"])
    assert {each.name for each in graph.initializer} >= {"self.weight", "self.bias"}
    with pytest.raises(ExportError, match="2 names of inputs are given, 1 different"):
        aj.onnx.export(model, aj.ones(3, 2), tmp_path / "model.onnx", input_names=["a", "b"])


def test_refusals(tmp_path: Path) -> None:
    """Nothing is written, and the message names the line or the remedy."""
    path, x = tmp_path / "model.onnx", aj.ones(3, 2)
    for model, message in (
            (nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)), r"changes arrays from outside[\s\S]*eval\(\)"),
            (nn.Dropout(), r"random|changes arrays[\s\S]*eval\(\)"),
            (lambda x: x * 2 if x.sum() > 0 else x, r"decision on values\n.*test_onnx.py[\s\S]*numpy.where"),
            (lambda x: aj.linalg.inv(x[:2]), r"the op lu\w*\n.*test_onnx.py")):
        with pytest.raises(ExportError, match=message):
            aj.onnx.export(model, x, path)
    for options, message in (({"opset_version": 11}, "operator set 18"), ({"dynamic_axes": {"x": [1]}}, "the first axis alone")):
        with pytest.raises(UnsupportedError, match=message):
            aj.onnx.export(nn.Linear(2, 2), x, path, **options)     # type: ignore[arg-type]
    with pytest.raises(ExportError, match=r"does not end with .onnx"):
        aj.onnx.export(nn.Linear(2, 2), x, tmp_path / "model.pt")
    assert not list(tmp_path.iterdir())


def test_without_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("adjit.runtime.exports.onnx_file.find_spec", lambda name: None)
    with pytest.raises(ExportError, match=r"package onnx, which is not installed[\s\S]*pip install adjit\[onnx\]"):
        aj.onnx.export(nn.Linear(2, 2), aj.ones(3, 2), tmp_path / "model.onnx")


ANY_ROWS: dict[str, Callable[[Any], Any]] = {
    "rows apart": lambda x: (np.tanh(x @ MATRIX), np.sort(x, axis=1)[:, ::-1], x.reshape(-1), x[:, None, :] * x[:, :, None]),
    "sums": lambda x: (np.mean(x, axis=0), (x - x.mean(axis=0)) / (1 + x.std(axis=0)), x.T @ x),
    "counts": lambda x: (x.sum() / len(x), x * np.float32(2) * (1 / np.sqrt(len(x))), x * (1 - 1 / len(x))),
    "made for the size": lambda x: (np.concatenate([x, np.ones((len(x), 2), np.float32)], axis=1), np.zeros((len(x), 2)),
                                    x[np.arange(len(x)), np.argmax(x, axis=1)], np.arange(len(x)) * x[:, 0]),
    "loops": lambda x: aj.scan(lambda h, given: (np.tanh(h + given), np.sum(h * given) / len(x)), x[:, :2] * 0,
                               np.stack([x[:, :2], x[:, 2:]])),
}
MATRIX = floats(4, 67)


@pytest.mark.parametrize("name", ANY_ROWS)
def test_models_for_any_number_of_rows(name: str, tmp_path: Path) -> None:
    fun, x = ANY_ROWS[name], floats(90, 4)
    aj.compile(fun, batch=(0,)).export(tmp_path / "model.onnx", x[:5])
    assert onnx.load(tmp_path / "model.onnx").graph.input[0].type.tensor_type.shape.dim[0].dim_param == "rows"
    for size in (1, 2, 5, 67, 90):
        for one, two in zip(run(tmp_path / "model.onnx", x[:size]), fun(x[:size]), strict=True):
            assert one.shape == np.shape(two)
            assert np.allclose(one, two, atol=1e-5), size


def test_dynamic_axes_of_modules(tmp_path: Path) -> None:
    aj.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(12, 4)).eval()
    x, path = floats(20, 1, 6, 6), tmp_path / "model.onnx"
    names = {"input_names": ["x"], "output_names": ["y"]}
    aj.onnx.export(model, aj.tensor(x[:3]), path, dynamic_axes={"x": {0: "batch"}, "y": {0: "batch"}}, **names)
    assert [each.type.tensor_type.shape.dim[0].dim_param for each in (*onnx.load(path).graph.input, *onnx.load(path).graph.output)] == (
        ["batch", "batch"])
    for size in (1, 3, 20):
        assert np.allclose(run(path, x[:size])[0], model(aj.tensor(x[:size])).detach().numpy(), atol=1e-5)
    with pytest.raises(ExportError, match="no ONNX model for any number of rows: a program for each number of rows of x, because"):
        aj.compile(lambda x: np.cumsum(x, axis=0), batch="x").export(path, x[:, 0, 0])
    with pytest.raises(ExportError, match="no input or output"):
        aj.onnx.export(model, aj.tensor(x), path, dynamic_axes={"z": [0]}, **names)
