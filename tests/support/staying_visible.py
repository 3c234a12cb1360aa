"""Item 27 c2: what is stuck stays visible, though the API server drops an Event an hour after its last change."""

from __future__ import annotations

from tests.support.cluster_world import ClusterWorld

QUARTER_S = 900.0
HOURS = 3


async def stays_visible(world: ClusterWorld, name: str, text: str) -> None:
    """For hours, an Event about the object says so, and is counted up, or made anew, at least once in every quarter of
    an hour.
    """
    before: list[tuple[str, str, str, int]] = []
    for _ in range(int(HOURS * 3600 / QUARTER_S)):
        found = [event for event in await world.events(name) if text in event[2]]
        assert found, f"nobody says {text!r} of {name} any more: {await world.events(name)}"
        assert before != found, f"not told again: {found}"
        before = found
        await world.settle(QUARTER_S)
