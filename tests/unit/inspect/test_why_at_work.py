"""`mooring why` on a program that is at work and does not move: its Lease is watched by our own clock, and its rights
are asked for, as `mooring doctor` asks.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import yaml

from mooring.api.coordination import LEASES, Lease
from mooring.api.meta import Kind
from mooring.apiserver.local import ServerFaults
from mooring.base.clock import rfc3339_micro
from mooring.inspect.scene import Scene
from mooring.inspect.why.at_work import QUIET_S, link_with_rights
from mooring.inspect.why.chain import Link, Mover, State
from tests.support.builders import a_claim, a_class, a_csi_driver, a_lease
from tests.support.cluster_world import EPOCH_S
from tests.support.explaining import WhyWorld
from tests.support.rights import UPSTREAM, UPSTREAM_ELECTION, Rules
from tests.support.rows import each_row
from tests.support.sick_cluster import NOW_S, an_inventory, deployment, rights, sidecar
from tests.support.virtual_loop import in_virtual_time

pytestmark = in_virtual_time

WHO = "csi-provisioner of csi.test"
LINK = Link("claim data", State.WAITING, "the driver is asked", Mover.CLUSTER, WHO, NOW_S - 60)
ASKED = {"volume.kubernetes.io/storage-provisioner": "csi.test"}


def without(verb: str, resource: str) -> Rules:
    """The Go provisioner's rights, less one."""
    return tuple(
        (group, resources, " ".join(one for one in verbs.split() if resources != resource or one != verb))
        for group, resources, verbs in UPSTREAM["provisioner"]
    )


def a_scene(holder: str = "csi-7d9c-x2x", namespace: str = "storage") -> Scene:
    scene = Scene(NOW_S)
    lease = a_lease("csi-test", holderIdentity=holder, namespace=namespace)
    scene.leases.put(msgspec.convert(lease, Lease))
    return scene


def told(tmp_path: Path, *objects: Any, scene: Scene | None = None, link: Link = LINK) -> Link:
    inventory = an_inventory(yaml.safe_dump_all(objects), tmp_path, of_files=False)
    return link_with_rights(link, scene or a_scene(), inventory)


@each_row("who", ["csi-provisioner of csi.test", "whoever runs csi-provisioner of csi.test"])
def test_a_provisioner_without_the_right_to_create_volumes_is_named_with_its_role(who: str, tmp_path: Path) -> None:
    objects = rights(without("create", "persistentvolumes"), UPSTREAM_ELECTION)
    link = told(tmp_path, deployment(sidecar("csi-provisioner")), *objects, link=msgspec.structs.replace(LINK, who=who))
    assert (State.FAILED, Mover.OPERATOR, "whoever keeps the sidecars' roles") == (link.state, link.mover, link.who)
    wrong = "the service account storage/csi has no right to create persistentvolumes"
    assert link.text.startswith(f"csi-provisioner of csi.test has not moved: {wrong}; claims stay Pending")
    (command,) = link.commands
    assert "kubectl edit clusterrole csi" == command.line
    assert '{apiGroups: [""], resources: [persistentvolumes], verbs: [create]}' in command.effect


def test_one_with_all_its_rights_is_left_to_its_work(tmp_path: Path) -> None:
    objects = rights(UPSTREAM["provisioner"], UPSTREAM_ELECTION)
    assert LINK is told(tmp_path, deployment(sidecar("csi-provisioner")), *objects)


@each_row("other", ["elsewhere", "beside"])
def test_of_several_the_one_that_holds_the_lease_is_asked(other: str, tmp_path: Path) -> None:
    mine = [deployment(sidecar("csi-provisioner")), *rights(UPSTREAM["provisioner"], UPSTREAM_ELECTION)]
    theirs = deployment(sidecar("csi-provisioner"), name="other", namespace=other.replace("beside", "storage"))
    theirs["spec"]["template"]["spec"]["serviceAccountName"] = "without-rights"
    assert LINK is told(tmp_path, *mine, theirs)
    assert (
        State.FAILED
        is told(tmp_path, *mine, theirs, scene=a_scene("other-5f-abc", theirs["metadata"]["namespace"])).state
    )


def test_where_nobody_can_say_which_it_is_nothing_is_said(tmp_path: Path) -> None:
    several = [deployment(sidecar("csi-provisioner"), name=name) for name in ("one", "two")]
    assert LINK is told(tmp_path, *several)
    assert LINK is told(tmp_path, *several, scene=Scene(NOW_S))
    assert State.FAILED is told(tmp_path, several[0], scene=Scene(NOW_S)).state, "the only one of its kind"


class Deployments(ServerFaults):
    """Counts the looks at them."""

    looks = 0

    async def before(self, verb: str, kind: Kind[Any], name: str) -> None:
        self.looks += kind.plural == "deployments"


async def test_the_rights_are_read_only_once_a_program_is_quiet() -> None:
    seen = Deployments()
    world = WhyWorld(seen)
    await world.create(a_class(), a_csi_driver())
    claim = await world.create(a_claim(annotations=ASKED))
    await world.tell(claim, "Provisioning", "External provisioner is provisioning volume", "Normal")
    for passed_s, looks in ((0.0, 0), (QUIET_S + 1, 1)):
        await world.clock.sleep(passed_s)
        assert WHO == (await world.blocking("pvc/claim"))["who"]
        assert looks == seen.looks


# -- its Lease


async def a_quiet_provisioner(renewed_s: float, now_s: float = 20.0) -> WhyWorld:
    """It has begun to make a volume. renewed_s: when it renewed its Lease for the last time, by its own clock."""
    world = WhyWorld()
    await world.create(a_class(), a_csi_driver())
    claim = await world.create(a_claim(annotations=ASKED))
    await world.tell(claim, "Provisioning", "External provisioner is provisioning volume", "Normal")
    await world.create(a_lease("csi-test", holderIdentity="csi-0", renewTime=rfc3339_micro(EPOCH_S + renewed_s)))
    await world.clock.sleep(now_s)
    return world


async def test_a_killed_program_is_named_once_its_lease_has_run_out_by_our_own_clock() -> None:
    """Its last renewal was eleven seconds ago: two are missing, and 45 s had to pass without the watch."""
    world = await a_quiet_provisioner(renewed_s=9.0)
    began = world.clock.now()
    link = await world.blocking("pvc/claim")
    assert ("failed", "operator", "whoever runs the driver csi.test") == (link["state"], link["mover"], link["who"])
    assert "csi-provisioner of csi.test does not run: nobody renews its Lease default/csi-test" in link["text"]
    assert 15 <= world.clock.now() - began < 16
    assert "looking for 15s whether default/csi-test is still renewed\n" == world.err.getvalue()


@each_row("behind_s", [11, 40])
async def test_a_program_with_a_slow_clock_is_seen_to_live_by_its_next_renewal(behind_s: int) -> None:
    world = await a_quiet_provisioner(renewed_s=20.0 - behind_s)

    async def renew() -> None:
        for number in range(1, 4):
            await asyncio.sleep(5)
            spec = {"renewTime": rfc3339_micro(EPOCH_S + 20 - behind_s + 5 * number)}
            await world.patch(LEASES, "csi-test", {"spec": spec})

    renewing = asyncio.create_task(renew(), name="renew")
    began = world.clock.now()
    link = await world.blocking("pvc/claim")
    assert ("waiting", "cluster", WHO) == (link["state"], link["mover"], link["who"])
    assert world.clock.now() - began < 7
    renewing.cancel()


@each_row("renewed_s", [12.0, 60.0])
async def test_a_lease_that_seems_fresh_is_not_watched(renewed_s: float) -> None:
    """Its holder's clock may be ahead: then its end is told later, after its duration and that lead."""
    world = await a_quiet_provisioner(renewed_s)
    began = world.clock.now()
    assert "waiting" == (await world.blocking("pvc/claim"))["state"]
    assert began == world.clock.now()
