"""Which seeds every run of the tests lives, and which only the long one."""

from __future__ import annotations

from typing import Any

import pytest


def chunks(seeds: int, size: int, quick: int = 1) -> list[Any]:
    """The first seed of each chunk, to parametrize a test with: the first `quick` chunks are lived by `make test`, all
    by `make test-long`.
    """
    firsts = range(0, seeds, size)
    return [pytest.param(first, marks=() if n < quick else pytest.mark.long) for n, first in enumerate(firsts)]
