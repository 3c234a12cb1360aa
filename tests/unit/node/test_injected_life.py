"""What a CSIDriver asks for, in a publish: tokens and inline volumes."""

from __future__ import annotations

import json
from typing import Any

from mooring.api.pods import PODS
from mooring.node.layout import inline_unique_name, inline_volume_id
from tests.support.builders import a_csi_driver, a_secret
from tests.support.node_driver import PUBLISH, UNPUBLISH
from tests.support.rows import each_row
from tests.support.virtual_loop import in_virtual_time
from tests.unit.node.volume_world import VolumesWorld, world

TOKENS = "csi.storage.k8s.io/serviceAccount.tokens"
REQUESTS = [{"audience": ""}, {"audience": "gcp", "expirationSeconds": 3600}]


def inline(name: str = "scratch", **csi: Any) -> dict[str, Any]:
    return {"volumes": [{"name": name, "csi": {"driver": "d1", **csi}}]}


@each_row("in_secrets", [False, True], fresh=[world])
@in_virtual_time
async def test_MNT17_tokens_for_each_audience(world: VolumesWorld, in_secrets: bool) -> None:
    await world.no_attach(tokenRequests=REQUESTS, serviceAccountTokenInSecrets=in_secrets)
    async with world.agent():
        pod = await world.running_pod(await world.volume(attached=False), serviceAccountName="someone")
    reference = {"apiVersion": "v1", "kind": "Pod", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}
    assert [([], reference), (["gcp"], reference)] == [
        (asked["audiences"], asked["boundObjectRef"]) for asked in world.tokens.asked
    ]
    assert 3600 == world.tokens.asked[1]["expirationSeconds"]
    request = world.request(PUBLISH)
    given, other = (
        (request.secrets, request.volume_context) if in_secrets else (request.volume_context, request.secrets)
    )
    found = json.loads(given[TOKENS])
    assert {"": "token1", "gcp": "token2"} == {audience: token["token"] for audience, token in found.items()}
    assert {"token", "expirationTimestamp"} == set(found["gcp"])
    assert TOKENS not in other
    assert TOKENS not in {*world.request("NodeStageVolume").volume_context, *world.request("NodeStageVolume").secrets}


@in_virtual_time
async def test_the_token_of_a_pod_without_an_account_is_the_default_account_s(world: VolumesWorld) -> None:
    """Where no admission writes the account into the pod, the request would go to no account at all."""
    await world.no_attach(tokenRequests=[{"audience": "vault"}])
    async with world.agent():
        await world.running_pod(await world.volume(attached=False))
    assert ["serviceaccounts/default/token"] == world.tokens.places


@in_virtual_time
async def test_MNT17_a_token_is_renewed_after_four_fifths_of_its_life_and_served_while_it_lasts(
    world: VolumesWorld,
) -> None:
    """The volume is published again every 75 s: at 3000 s of 3600 the first token is too old, but good."""
    await world.no_attach(tokenRequests=[{"audience": "a", "expirationSeconds": 3600}], requiresRepublish=True)

    def given() -> str:
        return str(json.loads(world.request(PUBLISH).volume_context[TOKENS])["a"]["token"])

    async with world.agent():
        pod = await world.running_pod(await world.volume(attached=False), serviceAccountName="someone")
        await world.settle(2700.0)
        assert (1, "token1") == (len(world.tokens.asked), given())
        world.tokens.fails = True
        await world.settle(600.0)
        assert (True, "token1") == (len(world.tokens.asked) > 1, given())
        before = len(world.driver.made(PUBLISH))
        await world.settle(600.0)
        await world.until_told(pod, "no tokens today")
        assert 10 > len(world.driver.made(PUBLISH)) - before, "not with a token that is past its end"
        world.tokens.fails = False
        await world.until_called(PUBLISH, len(world.driver.made(PUBLISH)) + 1)
        assert f"token{len(world.tokens.asked)}" == given()


@each_row("expires", ["", "tomorrow", "2024-01-02T03:04:05"], fresh=[world])
@in_virtual_time
async def test_a_token_without_a_time_that_can_be_read_is_an_error_of_its_pod_alone(
    world: VolumesWorld, expires: str
) -> None:
    world.tokens.expires = expires
    await world.create(a_csi_driver("d1", attachRequired=False, tokenRequests=[{"audience": "gcp"}]))
    async with world.agent():
        pod = await world.pod(await world.volume(attached=False))
        assert "expirationTimestamp" in await world.until_told(pod, "failed to get service account token attributes")
        world.tokens.expires = None
        await world.shown(PODS, pod["metadata"]["name"], lambda pod: pod["status"]["phase"] == "Running")


@in_virtual_time
async def test_MNT18_an_inline_volume_is_published_alone(world: VolumesWorld) -> None:
    await world.create(a_csi_driver("d1", volumeLifecycleModes=["Ephemeral"], podInfoOnMount=True))
    async with world.agent():
        pod = await world.running_pod(**inline(readOnly=True, volumeAttributes={"size": "1"}))
        uid = pod["metadata"]["uid"]
        await world.until_calls(PUBLISH)
        request = world.request(PUBLISH)
        assert (inline_volume_id(uid, "scratch"), "", {}) == (
            request.volume_id,
            request.staging_target_path,
            dict(request.publish_context),
        )
        assert request.readonly
        assert ("true", "1") == (request.volume_context["csi.storage.k8s.io/ephemeral"], request.volume_context["size"])
        record = world.record(world.target(pod, "scratch").parent)
        assert record is not None
        assert ("Ephemeral", inline_volume_id(uid, "scratch"), "scratch") == (
            record["volumeLifecycleMode"],
            record["volumeHandle"],
            record["specVolID"],
        )
        assert [] == await world.in_use()
        await world.delete_pod(pod)
        await world.until_calls(PUBLISH, UNPUBLISH)
        await world.gone(PODS, pod["metadata"]["name"])
        assert ([], []) == (world.left(), world.mounts.points)


def test_MNT18_names_of_an_inline_volume_are_its_pods() -> None:
    assert "kubernetes.io/csi/uid-v" == inline_unique_name("uid", "v")
    assert inline_volume_id("uid", "v") != inline_volume_id("uid", "w")


@in_virtual_time
async def test_MNT18_an_inline_secret_is_the_pods_namespaces(world: VolumesWorld) -> None:
    await world.create(a_csi_driver("d1", volumeLifecycleModes=["Ephemeral"]))
    await world.create(a_secret("key", {"k": "dg=="}))
    async with world.agent():
        await world.running_pod(**inline(nodePublishSecretRef={"name": "key"}))
    assert {"k": "v"} == dict(world.request(PUBLISH).secrets)


@each_row("modes", [None, ["Persistent"]], ids=["no-CSIDriver", "Persistent-only"], fresh=[world])
@in_virtual_time
async def test_MNT19_an_inline_volume_of_a_driver_that_has_none_waits(
    world: VolumesWorld, modes: list[str] | None
) -> None:
    if modes is not None:
        await world.create(a_csi_driver("d1", volumeLifecycleModes=modes))
    async with world.agent():
        pod = await world.pod(**inline())
        message = await world.until_told(pod, 'volume mode "Ephemeral" not supported by driver d1')
        assert "Persistent" in message
        assert [] == world.driver.calls_for_volumes()
        await world.delete_pod(pod)
        await world.gone(PODS, pod["metadata"]["name"])
        assert [] == world.left()


@in_virtual_time
async def test_a_persistent_volume_of_a_driver_for_inline_volumes_alone_waits(world: VolumesWorld) -> None:
    await world.no_attach(volumeLifecycleModes=["Ephemeral"])
    async with world.agent():
        pod = await world.pod(await world.volume(attached=False))
        await world.until_told(pod, 'volume mode "Persistent" not supported by driver d1')
