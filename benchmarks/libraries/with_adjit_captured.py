"""adjit's eager training steps, captured whole by `aj.compile`: the losses of `with_adjit_eager.py`."""

from __future__ import annotations

from functools import partial

import with_adjit_eager
from tasks import Library

import adjit as aj


def library() -> Library:
    return with_adjit_eager.library(partial(aj.compile, flush_subnormals=True))
