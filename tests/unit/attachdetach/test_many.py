"""Many attachments, nodes of one volume, disks of one pod: the work for each does not grow with their number."""

from __future__ import annotations

import sys
from collections.abc import Callable

from mooring.cluster.attachdetach.assemble import observe, volume_of
from mooring.cluster.attachdetach.decide import decide
from mooring.cluster.attachdetach.identity import MANAGED, Identity, identity_of, source_body
from mooring.cluster.attachdetach.memory import Memory
from mooring.cluster.attachdetach.options import AttachDetachOptions
from mooring.cluster.attachdetach.orphans import Orphans
from mooring.cluster.attachdetach.release import Rules
from mooring.cluster.attachdetach.silence import Moment
from mooring.cluster.attachdetach.view import (
    ATTACHMENT_INDEXES,
    CLAIM_INDEXES,
    ORPHAN,
    POD_INDEXES,
    VOLUME_INDEXES,
    View,
)
from mooring.kube.cache.store import Store
from tests.support.attachdetaching import attaching
from tests.support.builders import DRIVER, NS, RWO, RWX, Json, a_claim, a_node, a_pod, a_pv, a_va, typed
from tests.support.rows import each_row
from tests.support.virtual_loop import in_virtual_time

NODES, EACH = 20, 100
START = Moment(0.0, 0.0)
DISK = {"gcePersistentDisk": {"pdName": "d"}}
LUN = {"targetPortal": "10.0.0.1:3260", "iqn": "iqn.2001-04.com.example:a", "lun": 0}


def steps_of(work: Callable[[], object]) -> int:
    """Calls of functions, so that a noisy machine does not matter."""
    count = 0

    def counted(_: object, event: str, __: object) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(counted)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def crowded(*, in_use: bool, each: int = EACH) -> tuple[View, list[tuple[str, str]]]:
    """So many such attachments on each node, and the keys of all of them."""
    nodes, attachments = Store(), Store(ATTACHMENT_INDEXES)
    view = View(
        Store(POD_INDEXES),
        Store(CLAIM_INDEXES),
        Store(VOLUME_INDEXES),
        nodes,
        Store(),
        attachments,
        Memory(),
        Orphans(),
    )
    for node in (f"n{number}" for number in range(NODES)):
        volumes = [Identity(DRIVER, f"{node}-h{number}") for number in range(each)]
        nodes.apply(typed(a_node(node, volumesInUse=[one.unique for one in volumes] if in_use else None)))
        for one in volumes:
            attachments.apply(typed(a_va(one.attachment_to(node), "gone", node)))
    for one in attachments.values():
        view.sort(one)
    found = ((view.key_of(one), one.spec.node_name) for one in attachments.values())
    return view, [(key, node) for key, node in found if key is not None]


@each_row("in_use", [True, False], ids=["in-use", "not-in-use"])
def test_each_has_one_place_and_is_found_by_its_node(in_use: bool) -> None:
    view, keys = crowded(in_use=in_use)
    assert NODES * EACH == len(set(keys))
    assert in_use is not any(key.startswith(ORPHAN) for key, _ in keys)
    assert all(volume_of(view, *key, START).place.matters for key in keys[:100])
    for node in range(NODES):
        on_it = [key for _, key in view.keys_on(f"n{node}") if key is not None]
        assert EACH == len(on_it)
        assert sorted(on_it) == sorted(view.without_volume_on(f"n{node}"))


@each_row("in_use", [True, False], ids=["in-use", "not-in-use"])
def test_the_steps_of_one_do_not_grow_with_their_number(in_use: bool) -> None:
    def steps(each: int) -> int:
        view, keys = crowded(in_use=in_use, each=each)
        return steps_of(lambda: [observe(view, volume_of(view, *key, START), 0.0) for key in keys[:10]])

    few, many = steps(20), steps(200)
    assert many <= few * 1.2


def test_the_steps_of_a_nodes_orphans_do_not_grow_with_the_other_attachments() -> None:
    """They are asked for with each change of a pod and of a node's report."""

    def steps(count: int) -> int:
        nodes, volumes, attachments = Store(), Store(VOLUME_INDEXES), Store(ATTACHMENT_INDEXES)
        view = View(Store(POD_INDEXES), Store(CLAIM_INDEXES), volumes, nodes, Store(), attachments, Memory(), Orphans())
        for number in range(count):
            volumes.apply(typed(a_pv(f"v{number}", handle=f"h{number}")))
            attachments.apply(typed(a_va(Identity(DRIVER, f"h{number}").attachment_to("n"), f"v{number}", "n")))
        attachments.apply(typed(a_va(lost := Identity(DRIVER, "lost").attachment_to("n"), "gone", "n")))
        for one in attachments.values():
            view.sort(one)
        found: list[str] = []
        taken = steps_of(lambda: found.extend(view.without_volume_on("n")))
        assert [f"{ORPHAN}{lost}"] == found
        return taken

    assert steps(20) == steps(200)


def steps_of_disks(count: int) -> int:
    """Those of decisions about ten of the disks that one pod names itself, when it is known to the caches."""
    pods, nodes = Store(POD_INDEXES), Store()
    view = View(
        pods,
        Store(CLAIM_INDEXES),
        Store(VOLUME_INDEXES),
        nodes,
        Store(),
        Store(ATTACHMENT_INDEXES),
        Memory(),
        Orphans(),
    )
    nodes.apply(typed(a_node("n", annotations={MANAGED: "true"})))
    disks = [{"name": f"v{number}", "cinder": {"volumeID": f"disk-{number}"}} for number in range(count)]
    pods.apply(typed(a_pod("user", volumes=disks, node="n")))

    def look() -> None:
        for number in range(10):
            volume = volume_of(view, Identity("cinder.csi.openstack.org", f"disk-{number}").unique, "n", START)
            assert ["cinder.csi.openstack.org-disk-" + str(number)] == [wish.pv_name for wish in volume.place.wishes]

    return steps_of(look)


def test_the_steps_of_a_pods_own_disk_do_not_grow_with_their_number() -> None:
    """27 A1: to translate all for each would hold the loop for hours."""
    few, many = steps_of_disks(20), steps_of_disks(2000)
    assert many <= few * 1.2


@each_row(("disk", "is_shared"), [({"azureFile": {"secretName": "s", "shareName": "f"}}, True), (DISK, False)])
def test_the_steps_of_a_decision_do_not_grow_with_the_pods_that_define_the_volume(disk: Json, is_shared: bool) -> None:
    """A pod on each node defines the same one: all nodes have it, or one has it and the others wait."""

    def steps(count: int) -> int:
        pods, nodes, attachments = Store(POD_INDEXES), Store(), Store(ATTACHMENT_INDEXES)
        volumes = Store(VOLUME_INDEXES)
        view = View(pods, Store(CLAIM_INDEXES), volumes, nodes, Store(), attachments, Memory(), Orphans())
        for node in (f"n{number}" for number in range(count)):
            nodes.apply(typed(a_node(node, annotations={MANAGED: "true"})))
            pods.apply(typed(a_pod(f"on-{node}", volumes=[{"name": "d", **disk}], node=node, uid=f"uid-{node}")))
        (pv,) = view.objects_of_pod(pods.values()[0])
        identity = identity_of(pv)
        assert identity is not None
        for node in (f"n{number}" for number in range(count if is_shared else 1)):
            va = a_va(identity.attachment_to(node), "", node, attacher=identity.driver, status={"attached": True})
            va["spec"]["source"] = source_body("", pv.spec)
            attachments.apply(typed(va))

        def look() -> None:
            for number in range(10, 20):
                volume = volume_of(view, identity.unique, f"n{number}", START)
                assert [f"on-n{number}"] == [wish.ref.name for wish in volume.place.wishes]
                assert (is_shared, not is_shared) == (volume.place.is_held, bool(volume.rivals))
                observe(view, volume, 0.0)
                decide(volume, Rules(AttachDetachOptions()), 0.0)

        return steps_of(look)

    few, many = steps(20), steps(200)
    assert many <= few * 1.5


@in_virtual_time
async def test_a_node_that_has_a_shared_lun_in_use_wakes_no_other_node() -> None:
    """Each node says so once."""
    async with attaching() as world:
        node, *others = [await world.node() for _ in range(8)]
        for one in (node, *others):
            await world.pod(one, volumes=[{"name": "d", "iscsi": LUN}])
        await world.settle(5)
        names = await world.reported(others[-1])

        def adds() -> float:
            registry = world.metrics.registry
            queues = ("attachdetach-nodes", "attachdetach-pods")
            return sum(registry.get_sample_value("workqueue_adds_total", {"name": name}) or 0.0 for name in queues)

        before = adds()
        await world.node_status(node, volumesInUse=names)
        await world.settle(5)
        assert names
        assert 0 < adds() - before < len(others)


def used_on(count: int, modes: tuple[str, ...], attached: int) -> tuple[View, str]:
    """A claim that pods on so many nodes use, of which the first ones have it attached."""
    pods, nodes, claims, volumes = Store(POD_INDEXES), Store(), Store(CLAIM_INDEXES), Store(VOLUME_INDEXES)
    attachments = Store(ATTACHMENT_INDEXES)
    view = View(pods, claims, volumes, nodes, Store(), attachments, Memory(), Orphans())
    claims.apply(typed({**a_claim("c", sc="", volume="pv", modes=modes, uid="u"), "status": {"phase": "Bound"}}))
    ref = {"kind": "PersistentVolumeClaim", "namespace": NS, "name": "c", "uid": "u"}
    volumes.apply(typed(a_pv("pv", handle="h", modes=modes, claimRef=ref)))
    identity = Identity(DRIVER, "h")
    for node in (f"n{number}" for number in range(count)):
        nodes.apply(typed(a_node(node, conditions=[{"type": "Ready", "status": "True"}])))
        pods.apply(typed(a_pod(f"on-{node}", "c", node=node, uid=f"uid-{node}")))
    for node in (f"n{number}" for number in range(attached)):
        attachments.apply(typed(a_va(identity.attachment_to(node), "pv", node, status={"attached": True})))
    return view, identity.unique


@each_row(("modes", "are_attached"), [(RWO, False), (RWX, True), (RWX, False)], ids=["blocked", "attached", "wanted"])
def test_the_steps_of_a_decision_do_not_grow_with_the_nodes_that_use_the_volume(
    modes: tuple[str, ...], are_attached: bool
) -> None:
    """A Deployment with a pod on each of 1,000 nodes: a decision about each, after any change, must cost 1,000."""

    def steps(count: int) -> int:
        view, unique = used_on(count, modes, count if are_attached else modes == RWO)
        found = [volume_of(view, unique, f"n{number}", START) for number in range(count)]
        for volume in found:
            observe(view, volume, 0.0)

        def look() -> None:
            for number in range(10, 20):
                volume = volume_of(view, unique, f"n{number}", START)
                observe(view, volume, 0.0)
                decide(volume, Rules(AttachDetachOptions()), 0.0)

        return steps_of(look)

    few, many = steps(20), steps(200)
    assert many <= few * 1.5
