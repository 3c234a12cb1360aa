"""Pods that move on a real control plane lose nothing when controllers are killed. The whole run:
`make attachdetach-load`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from mooring.api.volume_names import unique_name
from mooring.kube.cluster import EventType, WatchEvent
from tests.attachdetach_load.course import Size, a_course
from tests.attachdetach_load.kubelets import Mount
from tests.attachdetach_load.observer import Observer
from tests.attachdetach_load.parts import Parts
from tests.support.builders import DRIVER, Json, a_node, a_va, typed
from tests.support.control_plane import ControlPlane
from tests.support.rows import each_row
from tests.support.unreliable_driver import PUBLISH, UNPUBLISH, Journal

SMALL = Size(pods=30, nodes=4, seconds=20, moves=3, kill_every_s=4, seed=1)


@pytest.mark.long
def test_pods_that_move_keep_their_volumes_while_controllers_are_killed(
    new_control_plane: Callable[..., ControlPlane], tmp_path: Path
) -> None:
    async def main(plane: ControlPlane, parts: Parts) -> None:
        async with a_course(plane, parts, SMALL, print) as course:
            await course.run()
            assert course.moves > 5
            assert await course.multi_attach_events() > 0
            assert parts.kills > 0

    plane = new_control_plane()
    parts = Parts(plane, tmp_path, SMALL.seed)
    try:
        asyncio.run(main(plane, parts))
    finally:
        parts.stop()


# -- the observer finds each broken rule

H = "h"
V = unique_name(DRIVER, H)


def _node(version: int, *, in_use: bool = False, told: bool = False, name: str = "a") -> tuple[str, WatchEvent[Any]]:
    lists: Json = {
        "volumesInUse": [V] if in_use else None,
        "volumesAttached": [{"name": V, "devicePath": ""}] if told else None,
    }
    return "node", WatchEvent(EventType.MODIFIED, typed(a_node(name, **lists)), str(version))


def _va(
    version: int, *, attached: bool = False, deleting: bool = False, gone: bool = False, node: str = "a"
) -> tuple[str, WatchEvent[Any]]:
    body = a_va(f"va-{node}", H, node, uid=f"uid-{node}", status={"attached": attached}, deleting=deleting)
    return "attachment", WatchEvent(EventType.DELETED if gone else EventType.MODIFIED, typed(body), str(version))


ATTACHED = (_va(1), _node(1), _va(2, attached=True), _node(3, in_use=True, told=True))


def _observed(*seen: tuple[str, WatchEvent[Any]], mounts: Iterable[Mount] = ()) -> Observer:
    observer = Observer({H})
    observer.mounts.extend(mounts)
    for kind, event in seen:
        (observer.saw_node if kind == "node" else observer.saw_attachment)(event)
    return observer


def _journal(path: Path, *effects: tuple[float, str, str, list[str]]) -> Journal:
    journal = Journal(path)
    journal.events = [
        {"t": t, "event": "effect", "call": 1, "method": method, "volume": H, "node": f"id-{node}", "nodes": nodes}
        for t, method, node, nodes in effects
    ]
    return journal


@each_row(
    "seen",
    [
        (
            *ATTACHED,
            _node(4, told=True),
            _node(5),
            _va(6, attached=True, deleting=True),
            _va(7, gone=True),
            _va(8, node="b"),
        ),
        (*ATTACHED, _node(4), _node(5, in_use=True), _va(6, attached=True, deleting=True)),
        (*ATTACHED, _node(4, in_use=True), _node(5), _node(6, in_use=True), _va(7, gone=True)),
        (_va(1), _node(1), _va(2, gone=True)),
    ],
    ids=["moved", "used-anew-since-the-check", "let-go-and-used-anew", "never-told"],
)
def test_the_observer_finds_nothing_where_the_rules_held(seen: Any, tmp_path: Path) -> None:
    assert [] == _observed(*seen).broken(_journal(tmp_path / "journal"))


@each_row(
    ("seen", "text"),
    [
        ((*ATTACHED, _node(4, told=True), _va(5, deleting=True)), "was told that it is attached"),
        ((*ATTACHED, _node(4, in_use=True), _va(5, deleting=True)), "had it in use"),
        ((*ATTACHED, _node(4, in_use=True), _va(5, gone=True)), "had it in use"),
        ((_node(1, in_use=True), _va(2), _va(3, gone=True)), "had it in use"),
        ((_va(1), _node(1), _node(2, told=True)), "which was not attached"),
        ((_va(1), _va(2, attached=True), _va(3), _node(1), _node(4, told=True)), "which was not attached"),
        ((*ATTACHED, _node(4), _va(5, attached=True, deleting=True), _node(6, told=True)), "which was not attached"),
        (
            (*ATTACHED, _node(4), _va(5, deleting=True), _va(6, node="b"), _va(7, gone=True)),
            "had attachments for a and b",
        ),
    ],
    ids=[
        "told",
        "in-use",
        "in-use-and-gone",
        "in-use-and-never-told",
        "not-attached",
        "no-longer-attached",
        "deleted",
        "two-nodes",
    ],
)
def test_the_observer_finds_a_broken_rule(seen: Any, text: str, tmp_path: Path) -> None:
    broken = _observed(*seen).broken(_journal(tmp_path / "journal"))
    assert 1 == len(broken)
    assert text in broken[0]


PUBLISHED = (1.0, PUBLISH, "a", ["a"])


@each_row(
    ("effects", "mount", "text"),
    [
        ((PUBLISHED, (4.0, UNPUBLISH, "a", [])), Mount(H, "a", 2.0, 3.0), ""),
        ((PUBLISHED, (2.5, UNPUBLISH, "a", [])), Mount(H, "a", 2.0, 3.0), "was taken from a"),
        ((PUBLISHED, (2.5, UNPUBLISH, "a", [])), Mount(H, "a", 2.0), "was taken from a"),
        ((PUBLISHED, (1.5, UNPUBLISH, "a", [])), Mount(H, "a", 2.0, 3.0), "not published there"),
        ((), Mount(H, "a", 2.0, 3.0), "not published there"),
        ((PUBLISHED, (2.0, PUBLISH, "b", ["id-a", "id-b"])), Mount(H, "a", 1.5, 3.0), "h on ['id-a', 'id-b']"),
    ],
    ids=["well", "torn", "torn-for-good", "taken-before", "never-published", "on-two-nodes"],
)
def test_the_observer_compares_mounts_with_the_driver(effects: Any, mount: Mount, text: str, tmp_path: Path) -> None:
    broken = _observed(mounts=[mount]).broken(_journal(tmp_path / "journal", *effects))
    assert ([text] if text else []) == [found[found.find(text) :][: len(text)] for found in broken]
