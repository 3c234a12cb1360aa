"""A failing life made smaller: fewer acts and fewer faults, as long as the same invariant breaks.

A cut takes one thing out of a plan, and is a text, so that a smaller life is replayed from its seed and its cuts:

| cut          | meaning                                                                                 |
|--------------|-----------------------------------------------------------------------------------------|
| `api.lost=0` | a field of the plan has another value: a fault that does not happen, one program less;   |
|              | `server.held=0`, `stops.still=0`, `stops.replicas=1`: of the habits in `habits.py`        |
| `act=move`   | one kind of act is never drawn                                                           |
| `skip=5-8`   | the acts of these numbers are left out; in lives whose acts do not hang on one another   |
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeVar

P = TypeVar("P")

FAULTS: Final = (
    "crash",
    "late",
    "meddling",
    "hasty",
    "impatient",
    "half",
    "lies",
    "step_s",
    "kubelet_fails",
    "lingers",
)
"""Beside those of the parts of a plan."""
NO_FAULTS: Final = (
    "latency_s",
    "stale_s",
    "late_s",
    "lasting_s",
    "held_s",
    "lag_s",
    "old_s",
    "still_s",
    "stills_max",
    "stuck_s",
)
COUNTS: Final = ("controllers", "attachers", "snapshotters", "replicas")
PROGRAMS: Final = ("health",)


def cut(plan: P, cuts: Sequence[str]) -> P:
    """The plan without what the cuts take out. Raises ValueError for one that means nothing."""
    for one in cuts:
        plan = _cut(plan, one)
    return plan


def _cut(plan: Any, one: str) -> Any:
    name, found, value = one.partition("=")
    if name == "act" and value in plan.acts:
        return dataclasses.replace(plan, acts=tuple(act for act in plan.acts if act != value))
    if name == "skip":
        first, _, last = value.partition("-")
        return dataclasses.replace(plan, skipped=(*plan.skipped, *range(int(first), int(last or first) + 1)))
    part, _, field = name.rpartition(".")
    owner = getattr(plan, part, None) if part else plan
    if not found or not hasattr(owner, field):
        raise ValueError(f"{one} cuts nothing out of this plan")
    changed = dataclasses.replace(owner, **{field: _value(getattr(owner, field), value)})
    return dataclasses.replace(plan, **{part: changed}) if part else changed


def _value(before: Any, text: str) -> Any:
    """What takes the place of the value before: nothing, for a tuple or a text."""
    return type(before)() if isinstance(before, tuple | str) else type(before)(float(text))


def shrunk(part: Any, seed: int, bug: str | None, cuts: Sequence[str] = ()) -> tuple[str, ...]:
    """The cuts that a failing life bears. part: with plan_of and run_seed. cuts: those that are made already."""
    broken = part.run_seed(seed, bug=bug, cuts=tuple(cuts)).broken
    assert broken is not None, "only a life that fails can be made smaller"
    kept = tuple(cuts)

    def still_fails(*more: str) -> bool:
        again = part.run_seed(seed, bug=bug, cuts=(*kept, *more)).broken
        return again is not None and again.invariant == broken.invariant

    for one in _candidates(cut(part.plan_of(seed), kept)):
        if still_fails(one):
            kept = (*kept, one)
    for first, last in _stretches(cut(part.plan_of(seed), kept)):
        done = cut(part.plan_of(seed), kept).skipped
        if not all(number in done for number in range(first, last + 1)) and still_fails(f"skip={first}-{last}"):
            kept = (*kept, f"skip={first}-{last}")
    return kept


def _candidates(plan: Any) -> Iterator[str]:
    """Programs first, then faults, then kinds of acts."""
    yield from (f"{name}=1" for name in COUNTS if getattr(plan, name, 1) > 1)
    yield from (f"{name}=0" for name in PROGRAMS if getattr(plan, name, False))
    for field in dataclasses.fields(plan):
        value = getattr(plan, field.name)
        if dataclasses.is_dataclass(value):
            numbers = [
                one.name for one in dataclasses.fields(value) if isinstance(getattr(value, one.name), int | float)
            ]
            inner = [name for name in numbers if name not in NO_FAULTS]
            yield from (f"{field.name}.{name}=1" for name in inner if name in COUNTS and getattr(value, name) > 1)
            yield from (f"{field.name}.{name}=0" for name in inner if name not in COUNTS and getattr(value, name))
        elif field.name in FAULTS and value:
            yield f"{field.name}=0"
    kinds = sorted(set(plan.acts))
    if not hasattr(plan, "skipped"):  # else acts are left out one by one
        yield from (f"act={kind}" for kind in kinds[1:])  # one has to be left to be drawn


def _stretches(plan: Any) -> Iterator[tuple[int, int]]:
    """Ever shorter stretches of acts, the last ones first."""
    if not hasattr(plan, "skipped"):
        return
    length = count = 2 * max(1, round(plan.chaos_s / plan.pause_s))
    while length > 1:
        length = max(1, length // 2)
        yield from ((first, min(count, first + length - 1)) for first in reversed(range(1, count + 1, length)))
