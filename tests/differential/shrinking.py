"""The shortest sequence that still differs."""

from __future__ import annotations

from collections.abc import Callable

from tests.differential.steps import Step


def shrunk(steps: tuple[Step, ...], fails: Callable[[tuple[Step, ...]], bool]) -> tuple[Step, ...]:
    """Steps are dropped one by one, from the end, until none can be spared."""
    position = len(steps) - 1
    while position >= 0:
        fewer = steps[:position] + steps[position + 1 :]
        if fewer and fails(fewer):
            steps = fewer
        position -= 1
    return steps
