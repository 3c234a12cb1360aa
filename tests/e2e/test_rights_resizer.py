"""The resizer with the rights of its manifest, all of which it needs; and with those of upstream's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from mooring.api.pods import PODS
from mooring.sidecars.resizer import names
from mooring.wire.grpc.codes import Code
from tests.e2e.resizer_world import PVC, Resizing, a_world
from tests.support.builders import NS, a_pod, a_secret
from tests.support.control_plane import ControlPlane
from tests.support.fault_proxy import FaultProxy, Refuse
from tests.support.resizing import EXPAND
from tests.support.rights import (
    ELECTION,
    UPSTREAM,
    UPSTREAM_ELECTION,
    Manifest,
    acting_as,
    deployed,
    has_asked,
    just,
    refused,
)
from tests.support.scripted_driver import Fail

RESIZER = deployed("resizer")


@pytest.mark.long
async def test_the_manifests_rights_are_enough_and_all_are_needed(
    new_control_plane: Callable[..., ControlPlane], tmp_path: Path
) -> None:
    """Everything happens once."""
    plane = new_control_plane()
    async with acting_as(RESIZER, plane, tmp_path) as proxy, a_world(plane.kubeconfig(), tmp_path) as world:
        await _everything_happens(world, proxy, plane, RESIZER)
        assert [] == refused(proxy)
        assert [] == RESIZER.unused(proxy)


@pytest.mark.long
async def test_nothing_is_refused_under_the_rights_of_upstreams_manifest(
    new_control_plane: Callable[..., ControlPlane], tmp_path: Path
) -> None:
    """The image alone is exchanged."""
    plane = new_control_plane()
    rights = just("upstream", UPSTREAM["resizer"], UPSTREAM_ELECTION)
    async with acting_as(rights, plane, tmp_path) as proxy, a_world(plane.kubeconfig(), tmp_path) as world:
        await _everything_happens(world, proxy, plane, rights)
        assert [] == refused(proxy)


async def _everything_happens(world: Resizing, proxy: FaultProxy, plane: ControlPlane, rights: Manifest) -> None:
    """A conflict, a secret, a volume in use, two growths, whose first event is one counted twice, and a class."""
    secret = await world.create(a_secret(world("secret"), {"user": "bWU="}))
    rights.grant_secret(plane, "resizer-secret", secret["metadata"]["name"])
    await world.make_bound(controllerExpandSecretRef={"name": world("secret"), "namespace": NS})
    await world.create(a_pod(world("pod"), world("claim")))
    gold = await world.make_attributes_class("gold")
    world.backend.script(
        EXPAND, Fail(Code.INTERNAL, "no"), Fail(Code.INTERNAL, "no"), Fail(Code.FAILED_PRECONDITION, "in use")
    )
    proxy.fail("patch", "persistentvolumeclaims/status", Refuse(409, "Conflict"), times=1)
    async with world.resizer(proxy.kubeconfig, "one", *ELECTION), world.resizer(proxy.kubeconfig, "two", *ELECTION):
        await world.ask(2)
        await world.shown(PVC, world("claim"), lambda claim: _error(claim) == "FailedPrecondition", "is in use")
        await world.until(lambda: has_asked(proxy, "watch", "pods"), what="the pods are watched")
        await world.users.delete(PODS, world("pod"), NS, grace_period_s=0)
        await world.handed_over(2)
        await world.node_done(2)
        await world.ask(3)
        await world.handed_over(3)
        assert {"user": "me"} == dict(world.backend.made(EXPAND)[0].request.secrets)
        await world.ask_class(gold)
        await world.modified(gold)
        await world.until(lambda: has_asked(proxy, "patch", "events"), what="an event is counted up")
        await world.until(
            lambda: has_asked(proxy, "watch", "leases"), what="the one that does not lead watches the Lease"
        )


def _error(claim: dict[str, dict[str, list[dict[str, str]]]]) -> str:
    conditions = claim["status"].get("conditions", [])
    return next((one.get("reason", "") for one in conditions if one["type"] == names.CONTROLLER_ERROR), "")
