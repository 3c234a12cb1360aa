"""`mooring unstick` (issue 29) on attachments and the attacher's finalizer of volumes: proof, refusal, races, force. In
virtual time.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mooring.api.core import EVENTS, NODES, PERSISTENT_VOLUMES
from mooring.api.meta import Kind
from mooring.api.storage import CSI_DRIVERS, VOLUME_ATTACHMENTS
from mooring.api.volume_names import unique_name
from mooring.apiserver.local import ServerFaults
from mooring.base.errors import ConfigError
from mooring.cli import mooring as command
from mooring.cli.unstick import CANNOT, CLEAN, LEFT
from mooring.inspect.objects import NotThere
from mooring.inspect.unstick.facts import Facts
from mooring.inspect.unstick.look import authors_of
from mooring.inspect.unstick.table import verdicts
from tests.support.builders import (
    DRIVER,
    FINALIZER,
    a_csi_driver,
    a_csi_node,
    a_held_pv,
    a_node,
    a_reference,
    an_attached_va,
    typed,
)
from tests.support.orphaned import Listing
from tests.support.rows import each_row
from tests.support.unsticking import Publishing, UnstickWorld
from tests.support.virtual_loop import in_virtual_time

pytestmark = in_virtual_time

VA = "va/pv1-node1"
LOCK = "external-attacher-leader-csi-test"
FENCED = {"taints": [{"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"}]}


async def a_world(
    faults: ServerFaults | None = None,
    *,
    node: dict[str, Any] | None = None,
    is_there: bool = True,
    servicer: Any = None,
    **attachment: Any,
) -> UnstickWorld:
    """A volume, and its attachment in deletion, of a driver that is installed and whose attacher has ended.

    node: spec of the Node. is_there: the Node is.
    """
    world = UnstickWorld(faults, servicer)
    if is_there:
        await world.create(a_node("node1", node))
        await world.create(a_csi_node("node1"))
    await world.create(a_csi_driver(DRIVER), a_held_pv("pv1"), an_attached_va("pv1-node1", **attachment))
    await world.delete(VOLUME_ATTACHMENTS, "pv1-node1")
    await world.dead_lease(LOCK)
    return world


async def in_use(world: UnstickWorld, *handles: str) -> None:
    names = [unique_name(DRIVER, handle) for handle in handles]
    await world.patch(NODES, "node1", {"status": {"volumesInUse": names}}, subresource="status")


async def test_the_attachment_to_a_machine_that_is_gone_ends():
    world = await a_world(is_there=False)
    assert CLEAN == await world.unstick(VA, yes=True)
    await world.gone(VOLUME_ATTACHMENTS, "pv1-node1")
    assert "external-attacher/csi-test: TAKEN OFF" in world.out.getvalue()


async def test_the_proof_is_shown_before_the_question_and_a_dry_run_writes_nothing():
    world = await a_world(is_there=False)
    assert LEFT == await world.unstick(VA, dry_run=True)
    said = " ".join(world.out.getvalue().split())
    assert "set by csi-attacher of csi.test" in said
    assert "proved node node1 does not exist any more: whoever deleted it has stated that the machine is gone" in said
    assert (
        "proved csi-attacher of csi.test does not run: nobody renews its Lease "
        "default/external-attacher-leader-csi-test"
    ) in said
    assert all(len(line) <= 80 for line in world.out.getvalue().splitlines())
    assert [FINALIZER] == list(await world.judged(VA))


@each_row("typed", ["", "yes\n", "pv1-node\n"])
async def test_another_word_than_its_name_takes_nothing_off(typed: str):
    world = await a_world(is_there=False)
    assert CANNOT == await world.unstick(VA, typed=typed)
    assert [FINALIZER] == (await world.get(VOLUME_ATTACHMENTS, "pv1-node1"))["metadata"]["finalizers"]
    assert CLEAN == await world.unstick(VA, typed="pv1-node1\n")


async def test_what_may_be_attached_to_a_node_that_is_there_stays():
    world = await a_world()
    assert CANNOT == await world.unstick(VA, yes=True)
    (verdict,) = (await world.judged(VA)).values()
    (objection,) = verdict["against"]
    assert "its volume may be attached to node1 (node id nodeID1)" == objection["what"]
    assert "mooring fence node1" in objection["wayOut"]
    assert [FINALIZER] == (await world.get(VOLUME_ATTACHMENTS, "pv1-node1"))["metadata"]["finalizers"]


async def test_a_node_out_of_service_frees_what_its_kubelet_had_unmounted():
    world = await a_world(node=FENCED)
    await in_use(world, "handle1")
    assert ["the kubelet of node1 reports it as in use"] == await world.against(VA)
    await in_use(world)
    assert CLEAN == await world.unstick(VA, yes=True)


async def test_an_attachment_that_nobody_deletes_stays_also_by_force():
    world = UnstickWorld()
    await world.create(a_held_pv("pv1"), an_attached_va("pv1-node1"))
    assert ["the object is not being deleted, so nothing waits for the finalizer to go"] == await world.against(VA)
    assert LEFT == await world.unstick(VA, force=True, reason="because", typed="pv1-node1\n")
    assert [FINALIZER] == (await world.get(VOLUME_ATTACHMENTS, "pv1-node1"))["metadata"]["finalizers"]
    assert [] == await world.list(EVENTS)


async def test_while_the_attacher_lives_it_is_its_move():
    world = await a_world(is_there=False)
    holder = world.renewing("mooring-controller-csi-test")
    (objection,) = await world.against(VA)
    assert objection.startswith("it is the move of csi-attacher of csi.test: alive_1 renews the Lease")
    assert CANNOT == await world.unstick(VA, yes=True)
    holder.cancel()


async def test_an_attacher_that_lives_and_fails_needs_the_drivers_own_word():
    failing = {"attached": True, "detachError": {"message": "node not found"}}
    servicer = Publishing("handle1")
    world = await a_world(is_there=False, status=failing)
    holder = world.renewing("mooring-controller-csi-test")
    (objection,) = await world.against(VA)
    assert "only the driver's own answer counts: node not found" in objection
    world.servicer = servicer
    assert [] == await world.against(VA)
    assert CLEAN == await world.unstick(VA, yes=True)
    holder.cancel()


async def test_an_attacher_that_nobody_can_see_needs_the_drivers_own_word():
    world = UnstickWorld()
    await world.create(a_csi_driver(DRIVER), a_held_pv("pv1"), an_attached_va("pv1-node1"))
    await world.delete(VOLUME_ATTACHMENTS, "pv1-node1")
    (objection,) = await world.against(VA)
    assert "it may run without leader election" in objection
    world.servicer = Publishing("handle1")
    (objection,) = await world.against(VA)
    assert objection.startswith("it was deleted a moment ago")
    await asyncio.sleep(61)
    assert CLEAN == await world.unstick(VA, yes=True)


@each_row("gets", [False, True])
async def test_the_driver_says_where_it_has_the_volume(gets: bool):
    servicer = Publishing("handle1", "handle2", "handle3", gets=gets)
    world = await a_world(servicer=servicer)
    servicer.published_on["handle1"] = ("nodeID1", "nodeID2")
    assert "the driver says that the volume is published on nodeID1, nodeID2" in await world.against(VA)
    servicer.published_on["handle1"] = ("nodeID2",)
    await world.create(a_node("node2"), a_csi_node("node2", {DRIVER: "nodeID2"}))
    assert (
        "the driver csi.test does not have the volume published on node node1 (node id nodeID1)"
        in await world.proved(VA)
    )
    assert CLEAN == await world.unstick(VA, yes=True)


@each_row("gets", [False, True])
async def test_a_volume_that_the_driver_has_not_is_attached_nowhere(gets: bool):
    world = await a_world(servicer=Publishing("other", gets=gets))
    assert "the driver csi.test has no such volume any more" in await world.proved(VA)
    assert CLEAN == await world.unstick(VA, yes=True)


async def test_a_volume_that_is_listed_under_a_near_name_is_no_proof():
    world = await a_world(servicer=Publishing("zone/HANDLE1"))
    assert ["its volume may be attached to node1 (node id nodeID1)"] == await world.against(VA)


async def test_a_driver_that_does_not_say_where_proves_nothing():
    world = await a_world(servicer=Publishing("handle1", says_where=False))
    (verdict,) = (await world.judged(VA)).values()
    assert "LIST_VOLUMES_PUBLISHED_NODES" in verdict["against"][0]["wayOut"]


async def test_another_driver_at_the_socket_proves_nothing():
    world = await a_world(servicer=Listing("handle1", name="csi.other"))
    (verdict,) = (await world.judged(VA)).values()
    assert "the driver at --csi-address is csi.other, and the volume is csi.test's" in verdict["against"][0]["wayOut"]


async def test_a_mounted_volume_stays_whatever_the_driver_says_while_the_node_may_live():
    world = await a_world(servicer=Publishing("other"))
    await in_use(world, "handle1")
    assert ["the kubelet of node1 reports it as in use"] == await world.against(VA)


class Touched(ServerFaults):
    """Somebody writes to the object between the look and the write. change: what; times: how often."""

    def __init__(self, change: dict[str, Any], times: int = 1) -> None:
        self.world: UnstickWorld | None = None
        self._change, self._times = change, times

    async def before(self, verb: str, kind: Kind[Any], name: str) -> None:
        if verb == "patch" and kind is VOLUME_ATTACHMENTS and self.world is not None and self._times:
            self._times -= 1
            body = {"metadata": {"annotations": {**self._change, "count": str(self._times)}}}
            await self.world.patch(VOLUME_ATTACHMENTS, name, body)


async def test_an_object_that_changes_meanwhile_is_judged_anew():
    faults = Touched({"somebody": "was here"})
    world = await a_world(faults, is_there=False)
    faults.world = world
    assert CLEAN == await world.unstick(VA, yes=True)
    assert 2 == sum(step.startswith("patch") for step in world.story)


async def test_one_that_never_rests_is_left_alone():
    faults = Touched({"somebody": "is here"}, times=9)
    world = await a_world(faults, is_there=False)
    faults.world = world
    assert LEFT == await world.unstick(VA, yes=True)
    assert "somebody keeps changing the object: look again" in world.out.getvalue()


class Lists(ServerFaults):
    """The kinds that are listed, but for Leases and Events, which are chosen by their names."""

    def __init__(self) -> None:
        self.kinds: set[str] = set()

    async def before(self, verb: str, kind: Kind[Any], name: str) -> None:
        if verb == "list" and kind.plural not in ("leases", "events"):
            self.kinds.add(kind.plural)

    async def of(self, world: UnstickWorld, *words: str) -> set[str]:
        """For a look at this object."""
        self.kinds.clear()
        await world.judged(*words)
        return set(self.kinds)


async def test_an_attachment_is_judged_by_names_alone_in_a_cluster_of_any_size():
    lists = Lists()
    world = await a_world(lists)
    assert set() == await lists.of(world, VA)
    world.servicer = Publishing("handle1")
    assert {"persistentvolumes", "volumeattachments", "csinodes"} == await lists.of(world, VA), (
        "to judge the driver's list"
    )


async def test_a_volume_is_judged_by_nodes_attachments_and_the_pods_of_one_namespace():
    lists = Lists()
    world = await a_world(lists)
    await world.patch(
        PERSISTENT_VOLUMES,
        "pv1",
        {"metadata": {"finalizers": [FINALIZER]}, "spec": {"claimRef": a_reference("claim", "u")}},
    )
    await world.delete(PERSISTENT_VOLUMES, "pv1")
    assert {"nodes", "volumeattachments", "pods"} == await lists.of(world, "pv/pv1")


async def test_csinodes_are_listed_where_no_csidriver_says_that_the_driver_is_there():
    lists = Lists()
    world = await a_world(lists)
    await world.remove(CSI_DRIVERS, DRIVER)
    assert {"csinodes"} == await lists.of(world, VA)


class ComesBack(ServerFaults):
    """The node comes back between the first look and the second."""

    def __init__(self) -> None:
        self.world: UnstickWorld | None = None
        self._looks = 0

    async def before(self, verb: str, kind: Kind[Any], name: str) -> None:
        if verb == "get" and kind is NODES and name == "node1" and self.world is not None:
            self._looks += 1
            if self._looks == 2:
                await self.world.create(a_node("node1"))


async def test_a_proof_that_holds_no_more_at_the_write_takes_nothing_off():
    faults = ComesBack()
    world = await a_world(faults, is_there=False)
    faults.world = world
    assert LEFT == await world.unstick(VA, yes=True)
    assert [FINALIZER] == (await world.get(VOLUME_ATTACHMENTS, "pv1-node1"))["metadata"]["finalizers"]
    assert "its volume may be attached to node1" in " ".join(world.out.getvalue().split())


async def test_force_wants_the_name_and_leaves_an_event_before_it_writes():
    world = await a_world()
    assert CANNOT == await world.unstick(VA, force=True, reason="the storage shows it detached", typed="yes\n")
    assert [] == await world.list(EVENTS)
    assert CLEAN == await world.unstick(VA, force=True, reason="the storage shows it detached", typed="pv1-node1\n")
    await world.gone(VOLUME_ATTACHMENTS, "pv1-node1")
    ((type_, reason, message, _),) = await world.events("pv1-node1")
    assert ("Warning", "FinalizerRemovedByForce") == (type_, reason)
    assert (
        "because: the storage shows it detached. What spoke against it: external-attacher/csi-test (its volume may be"
        in message
    )
    assert ["create events", "patch volumeattachments"] == [
        " ".join(step.split()[:2]) for step in world.story if step.startswith(("create events", "patch"))
    ]


class NoEvents(ServerFaults):
    async def before(self, verb: str, kind: Kind[Any], name: str) -> None:
        from mooring.kube.errors import Forbidden

        if verb == "create" and kind.plural == "events":
            raise Forbidden("no right to events")


async def test_force_without_the_right_to_leave_an_event_takes_nothing_off():
    world = await a_world(NoEvents())
    assert LEFT == await world.unstick(VA, force=True, reason="because", typed="pv1-node1\n")
    assert [FINALIZER] == (await world.get(VOLUME_ATTACHMENTS, "pv1-node1"))["metadata"]["finalizers"]
    assert "no right to events" in world.out.getvalue()


async def test_a_finalizer_that_nobody_here_knows_is_refused_with_its_author():
    world = await a_world(is_there=False, finalizers=[FINALIZER, "backup.example.com/hold"])
    found = await world.judged(VA)
    assert (True, False) == (found[FINALIZER]["mayGo"], found["backup.example.com/hold"]["mayGo"])
    assert "nobody here knows what it protects" == found["backup.example.com/hold"]["against"][0]["what"]
    assert LEFT == await world.unstick(VA, yes=True)
    assert ["backup.example.com/hold"] == (await world.get(VOLUME_ATTACHMENTS, "pv1-node1"))["metadata"]["finalizers"]


async def test_the_finalizer_of_another_drivers_attacher_is_refused():
    world = await a_world(is_there=False, finalizers=["external-attacher/csi-other"])
    assert ["it belongs to the attacher of another driver than csi.test"] == await world.against(VA)


async def test_only_the_named_finalizer_goes():
    world = await a_world(finalizers=[FINALIZER, "backup.example.com/hold"])
    flags = {"force": True, "reason": "because", "finalizer": "backup.example.com/hold", "typed": "pv1-node1\n"}
    assert LEFT == await world.unstick(VA, **flags)
    assert [FINALIZER] == (await world.get(VOLUME_ATTACHMENTS, "pv1-node1"))["metadata"]["finalizers"]
    with pytest.raises(
        ConfigError, match=r"backup.example.com/hold does not hold the object; external-attacher/csi-test do"
    ):
        await world.unstick(VA, **flags)


async def test_a_volume_goes_after_its_attachment():
    world = await a_world(is_there=False)
    await world.patch(PERSISTENT_VOLUMES, "pv1", {"metadata": {"finalizers": [FINALIZER]}})
    await world.delete(PERSISTENT_VOLUMES, "pv1")
    (verdict,) = (await world.judged("pv/pv1")).values()
    assert "mooring unstick volumeattachment/pv1-node1" == verdict["against"][0]["wayOut"]
    assert CLEAN == await world.unstick(VA, yes=True)
    assert CLEAN == await world.unstick("pv/pv1", yes=True)
    await world.gone(PERSISTENT_VOLUMES, "pv1")


async def test_a_volume_that_the_driver_has_published_stays():
    servicer = Publishing("handle1")
    servicer.published_on["handle1"] = ("nodeID7",)
    world = await a_world(is_there=False, servicer=servicer)
    await world.create(a_node("node7"), a_csi_node("node7", {DRIVER: "nodeID7"}))
    await world.unstick(VA, yes=True)
    await world.patch(PERSISTENT_VOLUMES, "pv1", {"metadata": {"finalizers": [FINALIZER]}})
    await world.delete(PERSISTENT_VOLUMES, "pv1")
    assert ["the driver says that the volume is published on nodeID7"] == await world.against("pv/pv1")


async def test_an_object_that_is_not_there_and_a_kind_that_it_does_not_know():
    world = UnstickWorld()
    with pytest.raises(NotThere, match='volumeattachment "none" does not exist'):
        await world.unstick("va/none")
    with pytest.raises(
        ConfigError, match=r"'node' is no kind that mooring unstick knows; it knows pv, pvc, volumeattachment, "
    ):
        await world.unstick("node/n1")


@each_row(
    ("words", "wrong"),
    [
        (["--force"], "--force: needs --reason"),
        (["--force", "--yes", "--reason=x"], "--force: goes without --yes and --dry-run"),
        (["--reason=x"], "--reason goes with --force"),
        (["--yes", "--dry-run"], "--yes goes without --dry-run"),
        (["--timeout=0s"], "--timeout: must be greater than zero"),
    ],
)
def test_flags_that_do_not_go_together(words: list[str], wrong: str, capsys: pytest.CaptureFixture[str]):
    assert 2 == command.run(["unstick", "va/x", *words])
    assert wrong in capsys.readouterr().err


# -- who wrote a finalizer


def _written(manager: str, at: str, *finalizers: str) -> dict[str, Any]:
    fields = {"f:metadata": {"f:finalizers": {".": {}, **{f'v:"{one}"': {} for one in finalizers}}}}
    return {"manager": manager, "time": at, "fieldsV1": fields}


async def test_the_last_writer_of_a_finalizer_is_its_author():
    fields = [
        _written("velero", "2026-01-02T00:00:00Z", "example.com/hold"),
        _written("kubectl-patch", "2026-01-01T00:00:00Z", "example.com/hold", "example.com/other"),
        {"manager": "broken", "fieldsV1": {"f:metadata": {"f:finalizers": {"v:{": {}, "v:7": {}, "k:x": {}}}}},
    ]
    found = authors_of({"metadata": {"managedFields": fields}})
    assert {"example.com/hold": "velero", "example.com/other": "kubectl-patch"} == {
        one: author.manager for one, author in found.items()
    }
    assert {} == authors_of({"metadata": {}})


async def test_the_author_of_an_unknown_finalizer_is_named():
    fields = [_written("velero", "2026-01-02T00:00:00Z", "example.com/hold")]
    world = await a_world(is_there=False, finalizers=["example.com/hold"])
    found = await world.get(VOLUME_ATTACHMENTS, "pv1-node1")
    facts = Facts(typed(found), "volumeattachment", DRIVER, authors=authors_of({"metadata": {"managedFields": fields}}))
    (verdict,) = verdicts(facts)
    assert "velero (it wrote it at 2026-01-02T00:00:00Z)" == verdict.setter
    assert "ask whoever runs velero: that program has to take it off" == verdict.objections[0].way_out
