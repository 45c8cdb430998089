"""What tests of traces count."""

from __future__ import annotations

from typing import Any

import pytest

from adjit.tracer.flow import recorder


@pytest.fixture
def points(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Number of points that traces arrive at, in a list."""
    counted, arrive = [0], recorder.FlowRecorder._arrive

    def counting(*arguments: Any) -> Any:
        counted[0] += 1
        return arrive(*arguments)

    monkeypatch.setattr(recorder.FlowRecorder, "_arrive", counting)
    return counted
