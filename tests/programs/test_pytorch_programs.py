"""Thirty PyTorch programs in which the import alone is changed: run as they are, and with `adjit.compile` where they would compile.

PyTorch's numbers are in a file that PyTorch wrote (see `support/pytorch_programs`), and are compared with PyTorch itself where it is
installed.
"""

from __future__ import annotations

import json
import warnings

import numpy as np
import pytest
from support.each import for_each, parametrize_within
from support.pytorch_programs import FOLDER, GOLDEN, NAMES, run, with_import_of

import adjit as aj

EXPECTED = json.loads(GOLDEN.read_text())
NOT_YET = {"as it is": {}, "compiled": {}}
"""Programs that do not run yet, with the reason: at most two, and none of them may run."""


def compare(found: dict[str, list[float]], expected: dict[str, list[float]]) -> None:
    assert found.keys() == expected.keys()
    for name, theirs in expected.items():
        np.testing.assert_allclose(found[name], theirs, 2e-5, 2e-5, err_msg=name)


def check(name: str, way: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if name in NOT_YET[way]:
            with pytest.raises(Exception, match=NOT_YET[way][name]):
                run(name, "adjit", aj.compile if way == "compiled" else None)
        else:
            compare(run(name, "adjit", aj.compile if way == "compiled" else None), EXPECTED[name])


@parametrize_within("name", NAMES, share=3)
def test_runs_with_its_import_changed(name: str) -> None:
    check(name, "as it is")


def test_runs_compiled(exhaustive: bool) -> None:
    """Every sixth one by default: compiling takes most of a second for each."""
    for_each({name: name for name in (NAMES if exhaustive else NAMES[1::6])}, lambda name: check(name, "compiled"))


CPU_ALONE = ("accumulation", "char_rnn", "devices", "flows_and_diffusion", "lbfgs", "reinforcement", "transformer_encoder")
"""Programs that name the CPU, ask for the class `torch.Tensor`, make data in other ways, or compute with NumPy."""


def test_runs_on_a_device(exhaustive: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADJIT_CUDA", "emulated")

    def check(name: str) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for compile in (None, aj.compile):
                found = run(name, "adjit", compile, on_device=True)
                for key, theirs in EXPECTED[name].items():
                    np.testing.assert_allclose(found[key], theirs, 2e-4, 2e-4, err_msg=key)

    names = [name for name in NAMES if name not in CPU_ALONE]
    for_each({name: name for name in (names if exhaustive else ("fine_tuning", "hooks"))}, check)


def test_thirty_programs_of_which_two_may_fail() -> None:
    assert len(NAMES) == 30
    assert list(EXPECTED) == NAMES
    assert all(len(failing) <= 2 and failing.keys() <= set(NAMES) for failing in NOT_YET.values())


def test_nothing_but_imports_is_changed() -> None:
    for name in NAMES:
        source = (FOLDER / f"{name}.py").read_text()
        before, after = source.splitlines(), with_import_of(source, "adjit").splitlines()
        assert len(before) == len(after)
        assert all(one == other or one.startswith(("import torch", "from torch")) for one, other in zip(before, after, strict=True))
        imports = "".join(line for line in after if line.startswith(("import", "from")))
        assert "torch" not in imports.replace("as torch", "").replace("pytorch_programs", "")


@parametrize_within("name", NAMES)
def test_the_file_is_pytorchs(name: str) -> None:
    pytest.importorskip("torch")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compare(run(name, "torch"), EXPECTED[name])
