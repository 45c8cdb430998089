"""The quick `dataclass` against that of the standard library."""

from __future__ import annotations

import copy
import dataclasses
import gc
import inspect
import pickle

import pytest

from adjit.ir.dataclass import MAX_INTERPRETED_INITS, dataclass

CHOICES = [{}, {"frozen": True}, {"slots": True}, {"frozen": True, "slots": True}, {"frozen": True, "slots": True, "eq": False},
           {"slots": True, "eq": False, "repr": False}, {"frozen": True, "slots": True, "weakref_slot": True}]


def _class(decorate, **choices):
    @decorate(**choices)
    class Point:
        x: int
        y: float = 2.5
        names: list = dataclasses.field(default_factory=list, compare=False)
        length: float = dataclasses.field(init=False, compare=False, repr=False)

        def __post_init__(self) -> None:
            object.__setattr__(self, "length", self.x + self.y)
    return Point


@pytest.mark.parametrize("made", [0, MAX_INTERPRETED_INITS])
@pytest.mark.parametrize("choices", CHOICES, ids=str)
def test_it_behaves_as_the_standard_one(choices, made):
    """The first instance, and those whose class has had its `__init__` compiled."""
    for arguments, keywords in [((1,), {}), ((1, 3.0), {}), ((), {"x": 4, "names": [1]}), ((2,), {"y": 2.5}), ((), {"y": 1.5, "x": 2})]:
        classes = [_class(decorate, **choices) for decorate in (dataclass, dataclasses.dataclass)]
        for cls in classes * made:
            cls(1)
        ours, theirs = (cls(*arguments, **keywords) for cls in classes)
        assert (type(ours).__init__.__code__.co_varnames[1] == "x") == bool(made)
        assert dataclasses.asdict(ours) == dataclasses.asdict(theirs)
        if choices.get("repr", True):
            assert repr(ours) == repr(theirs)
        assert [f.name for f in dataclasses.fields(ours)] == [f.name for f in dataclasses.fields(theirs)]
        for value in ours, theirs:
            other = dataclasses.replace(value, x=1) if "names" not in keywords else copy.copy(value)
            assert (value == other) == (choices.get("eq", True) and value.x == other.x)
            assert value != (1, 2.5)
        assert (type(ours).__hash__ is None) == (type(theirs).__hash__ is None)
        if type(ours).__hash__ is not None and choices.get("eq", True):
            assert hash(ours) == hash(theirs)


@pytest.mark.parametrize("choices", CHOICES, ids=str)
def test_wrong_arguments_and_assignments_are_refused_alike(choices):
    for arguments, keywords in [((), {}), ((1, 2, 3, 4), {}), ((1,), {"z": 3}), ((1,), {"length": 3}), ((1,), {"x": 3}), ((), {"y": 3})]:
        ours, theirs = (_class(decorate, **choices) for decorate in (dataclass, dataclasses.dataclass))
        errors = []
        for cls in ours, theirs:
            with pytest.raises(TypeError) as caught:
                cls(*arguments, **keywords)
            errors.append(str(caught.value))
        assert errors[0] == errors[1]
    for cls in ours, theirs:
        value = cls(1)
        if choices.get("frozen"):
            with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'x'"):
                value.x = 3
            with pytest.raises(dataclasses.FrozenInstanceError, match="cannot delete field 'x'"):
                del value.x
        else:
            value.x = 3
            assert value.x == 3
        assert hasattr(value, "__dict__") != choices.get("slots", False)


@dataclass(frozen=True, slots=True)
class _Pair:
    a: int
    b: float


def test_frozen_ones_are_copied_and_pickled():
    pair = _Pair(1, float("nan"))
    assert copy.copy(pair).a == 1
    assert pickle.loads(pickle.dumps(_Pair(1, 2.0))) == _Pair(1, 2.0)
    assert pair == pair
    assert pair != _Pair(1, 3.0)


def test_classes_with_one_field_and_with_none():
    @dataclass(frozen=True, slots=True)
    class One:
        x: object

    @dataclass(frozen=True, slots=True)
    class Nothing:
        pass

    assert One(3) == One(3)
    assert hash(One(3)) == hash(One(3))
    assert One(3) != One(4)
    assert Nothing() == Nothing()
    nan = float("nan")
    assert One(nan) == One(nan)


def test_signatures_show_the_fields_before_and_after_init_is_compiled():
    @dataclass
    class Fields:
        first: int
        second: str = "b"
        made: list[int] = dataclasses.field(default_factory=list)
        hidden: int = dataclasses.field(default=0, init=False)

    class WithInit(Fields):
        def __init__(self, only: float):
            super().__init__(int(only))

    before = inspect.signature(Fields)
    for number in range(100):
        Fields(number)
    assert str(before) == str(inspect.signature(Fields)) == "(first: 'int', second: 'str' = 'b', made: 'list[int]' = Ellipsis) -> None"
    assert list(inspect.signature(WithInit).parameters) == ["only"]


def test_a_compiled_init_leaves_nothing_to_the_garbage_collector():
    cls = dataclass(type("Wide", (), {"__annotations__": {f"unlike_others_{index}": int for index in range(37)}}))
    gc.collect()
    gc.disable()
    try:
        for _ in range(MAX_INTERPRETED_INITS + 2):
            cls(*range(37))
        assert cls.__init__.__code__.co_argcount == 38
        assert gc.collect() == 0
    finally:
        gc.enable()
