"""What a function prints, warns of or logs where a decision on values leads happens while it is traced: said once, at that line."""

from __future__ import annotations

import io
import logging
import re
import sys
import warnings
from collections.abc import Callable
from contextlib import redirect_stdout
from typing import Any

import numpy as np
import pytest
from support.each import parametrize_within

import adjit as aj
from adjit.tracer.guards import shown_while_traced

LOG = logging.getLogger("adjit.tests")
X = np.ones(3)


def printed(n: int) -> None:
    print("n", n)


def reported(n: int) -> None:
    printed(n)


class Logger:
    def tell(self) -> None:
        LOG.error("much")


def in_a_branch(x: Any) -> Any:
    if x.sum() > 2:
        print("much")
    return x


def in_the_other_branch(x: Any) -> Any:
    if x.sum() > 5:
        return x
    warnings.warn("little", stacklevel=2)
    return 2 * x


def in_a_loop(x: Any) -> Any:
    while x.sum() > 1:
        x = x / 2
        logging.info("halved")
    return x


def before_a_break(x: Any) -> Any:
    for i in range(3):
        print(i)
        if x.sum() > 1:
            break
    return x


def nested(x: Any) -> Any:
    for flag in (False, True):
        if x.sum() > 2:
            x = x * 2
            if flag:
                print("flag")
    return x


def by_others(x: Any) -> Any:
    if x.sum() > 2:
        reported(3)
    return x


def by_a_method(x: Any) -> Any:
    if x.sum() > 2:
        Logger().tell()
    return x


def within(x: Any) -> Any:
    def inner(y: Any) -> Any:
        if y.sum() > 2:
            print("inner")
        return y
    return inner(x)


def without_decisions(x: Any) -> Any:
    if x.ndim:
        print("vector")
    return x


class Optimizer:
    def step(self) -> None:
        pass


def step(x: Any) -> Any:
    """Has the name of a method that it calls."""
    print("step")
    Optimizer().step()
    if x.sum() > 2:
        x = x * 2
    return x


def beside_a_decision(x: Any, verbose: bool = True) -> Any:
    if verbose:
        print("begin")
    if x.sum() > 2:
        x = x * 2
    printed(1)
    return x


def in_each_call(x: Any) -> Any:
    if x.sum() > 2:
        aj.debug.print("much")
    return x


def test_tensors_that_calls_print_cause_no_warning(capsys: pytest.CaptureFixture[str]) -> None:
    def shown(x: Any, step: int) -> Any:
        total = x.sum()
        if step % 2 == 0:
            print(f"{step}: {total:.1f}")
        return x

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compiled = aj.compile(shown, backend="interpret")
        for step in range(1, 7):
            compiled(aj.ones(3) * step, step)
    assert capsys.readouterr().out == "2: 6.0\n4: 12.0\n6: 18.0\n"


def test_prints_in_branches_of_functions_of_tensors_are_those_of_each_call(capsys: pytest.CaptureFixture[str]) -> None:
    def step(x: Any) -> Any:
        total = x.sum()
        if total > 5:
            print("warning: big")
        return total

    numbers = (1, 2, 3, 1, 4, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compiled = aj.compile(step, backend="interpret")
        for function in (step, compiled):
            for number in numbers:
                print("call", number)
                function(aj.ones(2) * number)
    shown = capsys.readouterr().out.splitlines()
    half = len(shown) // 2
    assert shown[half:] == shown[:half]
    assert shown.count("warning: big") == 4


def test_prints_into_files_in_branches_are_those_of_the_trace() -> None:
    file = io.StringIO()

    def step(x: Any) -> Any:
        total = x.sum()
        print("big" if total > 5 else "small", file=file)
        if total > 5:
            print("too big", file=file)
        return total

    with pytest.warns(RuntimeWarning, match="prints where a decision on values leads"):
        aj.compile(step, backend="interpret")(aj.ones(2) * 3)
    assert file.getvalue() == "big\ntoo big\n"


def in_words(x: Any) -> Any:
    total = x.sum()
    print(f"A {total:.2f}", [1])
    print("B", f"{total.item():.1f}".rjust(6))
    print("grad", total.item())
    print({"loss": total.item()}, [total.item()])
    return total


def among_constants(x: Any) -> Any:
    print("begin", end=": ")
    for i in range(2):
        print("round", file=sys.stdout)
        x = x * 2
        print(i, x.max())
    print("end")
    return x


def as_long_as(x: Any) -> Any:
    while x.sum() < 20:
        print("double")
        x = x * 2
        print(f"{x.sum():.1f}")
    print("end")
    return x


def traced_again(x: Any) -> Any:
    text = f"{x.sum():.2f}"
    print(text)
    print("x", [x.max().item()])
    print("%.1f" % x.sum().item())  # noqa: UP031
    return x


def redirected(x: Any) -> Any:
    print("total", x.sum())
    with redirect_stdout(io.StringIO()) as out:
        print("inside")
    print("beside")
    print("got", out.getvalue())
    return x


@pytest.mark.parametrize("function", [in_words, among_constants, as_long_as, traced_again, redirected])
def test_all_prints_of_a_function_come_in_order_and_once(function: Callable[[Any], Any], capsys: pytest.CaptureFixture[str]) -> None:
    compiled, calls = aj.compile(function, backend="interpret"), (1, 3, 2, 5, *(() if function is traced_again else (5, 1)))
    for scale in calls:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")     # that some calls run step by step
            compiled(aj.ones(3) * scale)
        found = capsys.readouterr().out
        function(aj.ones(3) * scale)
        assert found == capsys.readouterr().out


def test_texts_before_an_error_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    def failing(x: Any) -> Any:
        print("begin")
        print(x.sum())
        print("before")
        raise ValueError("an error")

    with pytest.raises(ValueError, match="an error"):
        aj.compile(failing)(aj.ones(3))
    assert capsys.readouterr().out == "begin\nbefore\n"


class Lines:
    """What a function may print of an integer and a tensor that are others in each call."""

    @staticmethod
    def beside_a_decision(x: Any, n: int) -> None:
        print("epoch", n, f"{x.sum():.2f}", "done" if n == 3 else "")

    @staticmethod
    def alone(x: Any, n: int) -> None:
        print("epoch", n)
        print([n], {"n": (n,)}, repr(n), f"{n!r}{str(n)}")      # noqa: RUF010

    @staticmethod
    def in_formats(x: Any, n: int) -> None:
        print(f"{x.sum():.{n}f}", f"{x.sum().item():>{n + 8}.2f}", "{:.{p}f}".format(x.sum(), p=n))

    @staticmethod
    def filled_up(x: Any, n: int) -> None:
        print(f"{n!r:>4}|{str(n):>3}", str(n).zfill(4), "%s" % n, " ".join(map(str, [n, n])))      # noqa: RUF010, UP031

    @staticmethod
    def into_a_file(x: Any, n: int) -> None:
        out = io.StringIO()
        print(n, file=out)
        print([n], file=out)
        print(out.getvalue())

    @staticmethod
    def tensors(x: Any, n: int) -> None:
        print(repr(x.sum()), f"{x!r} {x!s}", str(x * 2) + ".", [x.sum(), {"x": x}])


@parametrize_within("name", [name for name in vars(Lines) if name[0] != "_"])
def test_integers_and_tensors_are_printed_as_those_of_the_call(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    shown, texts = getattr(Lines, name), []

    def step(x: Any, n: int) -> Any:
        shown(x, n)
        return x * n

    for function in (step, aj.compile(step, backend="interpret")):
        for n in range(1, 6):
            function(aj.tensor([0.25, 1.0]) * n, n)
        texts.append(capsys.readouterr().out)
    assert texts[1] == texts[0]
    if name in ("alone", "tensors"):
        assert function.cache_info().traces == 3


def test_what_is_logged_has_the_number_of_the_trace(caplog: pytest.LogCaptureFixture) -> None:
    def step(x: Any, n: int) -> Any:
        LOG.warning("epoch %s", n)
        return x * n

    compiled = aj.compile(step, backend="interpret")
    for n in range(1, 6):
        compiled(X, n)
    assert re.findall("epoch.*", caplog.text) == ["epoch 1", "epoch 2", "epoch 3"]


def test_records_are_logged_once_in_a_call_that_is_traced_more_than_once(caplog: pytest.LogCaptureFixture) -> None:
    def halved(x: Any) -> Any:
        n = 0
        while x.sum() > 1:
            x, n = x / 2, n + 1
            LOG.warning("pos" if x[0] > 0.3 else "neg")
        LOG.warning("end %d", n)
        return x

    handle = logging.Logger.handle
    compiled = aj.compile(halved, backend="interpret")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for scale in (1.0, 5.0, 0.1, 9.0):
            texts = []
            for function in (halved, compiled):
                caplog.clear()
                function(np.ones(2) * scale)
                texts.append(caplog.messages)
            assert texts[1] == texts[0]
    assert logging.Logger.handle is handle


@pytest.fixture(autouse=True)
def nobody_warned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shown_while_traced, "_warned", set())


def warned(function: Callable[[Any], Any]) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        compiled = aj.compile(function, backend="interpret")
        for scale in (1, 0, 1):
            compiled(scale * X)
    return [str(warning.message) for warning in caught if issubclass(warning.category, RuntimeWarning)]


@pytest.mark.parametrize(("function", "begin"), [
    (in_a_branch, "in_a_branch prints"), (in_the_other_branch, "in_the_other_branch warns"), (in_a_loop, "in_a_loop logs"),
    (before_a_break, "before_a_break prints"), (nested, "nested prints"), (by_others, "printed prints"), (by_a_method, "tell logs"),
    (within, "inner prints"), (without_decisions, ""), (step, ""), (beside_a_decision, ""), (in_each_call, "")])
def test_what_is_shown_where_values_decide_causes_one_warning(function: Callable[[Any], Any], begin: str) -> None:
    messages = warned(function)
    assert len(messages) == bool(begin)
    for message in messages:
        assert message.startswith(f"{begin} where a decision on values leads: this happens while the function is traced, not in each call")


def test_prints_of_a_call_are_made_once_and_where_it_goes(capsys: pytest.CaptureFixture[str]) -> None:
    """Other traces for the call are quiet: those that go where the call does not, and those that are made again."""
    lines = {in_a_branch: ["much\n", "", "", ""], before_a_break: ["0\n", "0\n1\n2\n", "", ""], by_others: ["n 3\n", "", "", ""],
             without_decisions: ["vector\n", "", "", ""]}
    for function, expected in lines.items():
        compiled, found = aj.compile(function, backend="interpret"), []
        for scale in (1, 0, 1, 0):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                compiled(scale * X)
            found.append(capsys.readouterr().out)
        assert found == expected, function
    assert "print" not in globals()
