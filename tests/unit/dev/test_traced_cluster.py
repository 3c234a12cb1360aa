"""Which writes are told."""

from __future__ import annotations

import io

import pytest

from mooring.api.coordination import LEASES, NODE_LEASE_NAMESPACE
from mooring.api.core import NODES, SERVICE_ACCOUNT_TOKENS
from mooring.api.pods import PODS
from mooring.dev.screen import PlainScreen
from mooring.dev.story import Story
from mooring.dev.traced import TracedCluster
from mooring.kube.cluster import Patch, PatchType
from mooring.kube.errors import NotFound
from mooring.kube.patch import merge_patch
from mooring.node.heartbeat import CONDITIONS
from tests.support.builders import a_lease, a_node, a_pod
from tests.support.cluster_world import ClusterWorld
from tests.support.rows import each_row
from tests.support.token_issuer import TokenIssuer
from tests.support.virtual_loop import in_virtual_time

GOOD = [one._asdict() for one in CONDITIONS]


@each_row(("ready", "told"), [("True", False), ("Unknown", True)])
@in_virtual_time
async def test_a_node_that_says_that_it_is_well_is_not_told(ready: str, told: bool) -> None:
    shown = io.StringIO()
    world = ClusterWorld()
    await world.create(a_node("n"))
    await world.create(a_lease("n", namespace=NODE_LEASE_NAMESPACE))
    traced = TracedCluster(world.users, "n", Story(PlainScreen(shown), world.clock), world.clock)
    conditions = [*GOOD[:3], {**GOOD[3], "status": ready}]
    await traced.patch(
        NODES, "n", Patch(PatchType.STRATEGIC, {"status": {"conditions": conditions}}), subresource="status"
    )
    await traced.patch(LEASES, "n", merge_patch({"spec": {"leaseDurationSeconds": 41}}), NODE_LEASE_NAMESPACE)
    assert told == ("nodes/n" in shown.getvalue())
    assert "leases" not in shown.getvalue()
    await traced.patch(NODES, "n", merge_patch({"spec": {"unschedulable": True}}))
    assert "unschedulable" in shown.getvalue()


@in_virtual_time
async def test_the_journal_of_a_provisioner_is_told_only_where_a_write_fails() -> None:
    """Its pages say nothing to the author of a driver. They still count as writes."""
    shown = io.StringIO()
    world = ClusterWorld()
    story = Story(PlainScreen(shown), world.clock)
    traced = TracedCluster(world.users, "provisioner", story, world.clock)
    await traced.create(LEASES.whole(), a_lease("d-intents-0", namespace="default"), "default")
    await traced.patch(LEASES, "d-intents-0", merge_patch({"spec": {"holderIdentity": "p"}}), "default")
    assert ("", 2) == (shown.getvalue(), story.writes["provisioner"])
    with pytest.raises(NotFound):
        await traced.patch(LEASES, "d-intents-1", merge_patch({"spec": {"holderIdentity": "p"}}), "default")
    assert "patch leases/d-intents-1" in shown.getvalue()


@in_virtual_time
async def test_a_name_that_the_server_ends_is_told_as_far_as_it_goes() -> None:
    shown = io.StringIO()
    world = ClusterWorld()
    traced = TracedCluster(world.users, "workloads", Story(PlainScreen(shown), world.clock), world.clock)
    pod = a_pod("web")
    pod["metadata"] = {"generateName": "web-5d8-", "namespace": "default"}
    await traced.create(PODS.whole(), pod, "default")
    assert "workloads → API  create pods/web-5d8-*  (" in shown.getvalue()


@in_virtual_time
async def test_a_request_for_a_token_is_told_with_its_account() -> None:
    """It has no metadata of its own."""
    shown = io.StringIO()
    world = ClusterWorld()
    traced = TracedCluster(
        TokenIssuer(world.users, world.clock), "n", Story(PlainScreen(shown), world.clock), world.clock
    )
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": ["vault"]}}
    made = await traced.create(SERVICE_ACCOUNT_TOKENS, body, "default", of=("default", "token"))
    assert "token1" == made.status.token
    assert "create serviceaccounts/default/token" in shown.getvalue()
