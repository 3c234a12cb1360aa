"""Thousands of attachments whose PersistentVolumes are gone: the work for each of them does not grow with the number of the others."""

from __future__ import annotations

import sys
import time

import pytest

from mooring.cluster.attachdetach.assemble import observe, volume_of
from mooring.cluster.attachdetach.identity import MANAGED, Identity
from mooring.cluster.attachdetach.memory import Memory
from mooring.cluster.attachdetach.orphans import Orphans
from mooring.cluster.attachdetach.view import ATTACHMENT_INDEXES, CLAIM_INDEXES, ORPHAN, POD_INDEXES, VOLUME_INDEXES, View
from mooring.kube.cache.store import Store
from tests.support.builders import DRIVER, a_node, a_pod, a_va, typed

NODES, EACH = 20, 100
SECONDS_MAX = 0.001
"""For one volume, on a machine that has other things to do; where all others are looked at it is a hundred times as much."""


def crowded(*, in_use: bool, each: int = EACH) -> tuple[View, list[str]]:
    """So many such attachments on each node, and the keys of all of them."""
    nodes, attachments = Store(), Store(ATTACHMENT_INDEXES)
    view = View(Store(POD_INDEXES), Store(CLAIM_INDEXES), Store(VOLUME_INDEXES), nodes, Store(), attachments, Store(), Memory(), Orphans())
    for node in (f"n{number}" for number in range(NODES)):
        volumes = [Identity(DRIVER, f"{node}-h{number}") for number in range(each)]
        nodes.apply(typed(a_node(node, volumesInUse=[one.unique for one in volumes] if in_use else None)))
        for one in volumes:
            attachments.apply(typed(a_va(one.attachment_to(node), "gone", node)))
    for one in attachments.values():
        view.sort(one)
    return view, [key for one in attachments.values() if (key := view.key_of(one)) is not None]


@pytest.mark.parametrize("in_use", [True, False], ids=["in-use", "not-in-use"])
def test_what_one_costs_does_not_grow_with_their_number(in_use: bool) -> None:
    view, keys = crowded(in_use=in_use)
    assert NODES * EACH == len(set(keys))
    assert in_use is not any(key.startswith(ORPHAN) for key in keys)
    begun = time.process_time()
    for key in keys[:100]:
        volume = volume_of(view, key)
        assert 1 == len(volume.places)
        observe(view, volume, 0.0)
    for node in range(NODES):
        assert EACH == len([key for _, key in view.keys_on(f"n{node}") if key is not None])
    assert time.process_time() - begun < SECONDS_MAX * (100 + NODES * EACH / 10)


def steps_of(each: int, *, in_use: bool) -> int:
    """Calls of functions for decisions about ten of them."""
    view, keys = crowded(in_use=in_use, each=each)
    count = 0

    def counted(_: object, event: str, __: object) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(counted)
    try:
        for key in keys[:10]:
            observe(view, volume_of(view, key), 0.0)
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("in_use", [True, False], ids=["in-use", "not-in-use"])
def test_the_steps_of_one_do_not_grow_with_their_number(in_use: bool) -> None:
    """Counted, so that a noisy machine does not matter."""
    few, many = (steps_of(each, in_use=in_use) for each in (20, 200))
    assert many <= few * 1.2


def steps_of_disks(count: int) -> int:
    """Calls of functions for decisions about ten of the disks that one pod names itself, when it is known to the caches."""
    pods, nodes = Store(POD_INDEXES), Store()
    view = View(pods, Store(CLAIM_INDEXES), Store(VOLUME_INDEXES), nodes, Store(), Store(ATTACHMENT_INDEXES), Store(), Memory(), Orphans())
    nodes.apply(typed(a_node("n", annotations={MANAGED: "true"})))
    disks = [{"name": f"v{number}", "cinder": {"volumeID": f"disk-{number}"}} for number in range(count)]
    pods.apply(typed(a_pod("user", volumes=disks, node="n")))
    steps = 0

    def counted(_: object, event: str, __: object) -> None:
        nonlocal steps
        steps += event == "call"

    sys.setprofile(counted)
    try:
        for number in range(10):
            volume = volume_of(view, Identity("cinder.csi.openstack.org", f"disk-{number}").unique)
            assert ["cinder.csi.openstack.org-disk-" + str(number)] == [wish.pv_name for wish in volume.places["n"].wishes]
    finally:
        sys.setprofile(None)
    return steps


def test_the_steps_of_a_pods_own_disk_do_not_grow_with_their_number() -> None:
    """27 A1: to translate all for each would hold the loop for hours."""
    few, many = steps_of_disks(20), steps_of_disks(2000)
    assert many <= few * 1.2
