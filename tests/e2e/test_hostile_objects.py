"""Objects and drivers that say outrageous things: carried faithfully or refused in words, on every road, and everybody
else is served.
"""

from __future__ import annotations

import base64
from typing import Any

import pytest

from mooring.wire.grpc.codes import Code
from tests.e2e.targets import Target, on_every_target
from tests.support.builders import a_csi_node, a_held_pv, a_secret, a_va
from tests.support.scripted_driver import PUBLISH, Fail

SOON = "--retry-interval-start=100ms"
# control, quotes, right to left, wide, combined
STRANGE = "\x00\x01\x1b[31m\r\n\t\"'\\`$(x)%s{} \u202e\ufdfa\u2603\U0001f6a2 e\u0301"
MEBIBYTE = 2**20


async def _serves_others(target: Target, node: str) -> None:
    """A quite usual volume is attached and detached."""
    va = await target.want(await target.volume("usual"), node)
    await target.attached(va)
    await target.detached(va)


@on_every_target
async def test_names_as_long_as_they_may_be(target: Target) -> None:
    long = {base: f"{base}-{target.suffix}-".ljust(252, "x") + "z" for base in ("pv", "node", "secret", "va")}
    node_id = "n" * 256
    await target.create(a_csi_node(long["node"], {target.driver.name: node_id}))
    await target.create(a_secret(long["secret"], {"k" * 253: "dg=="}))
    ref = {"name": long["secret"], "namespace": "default"}
    how: dict[str, Any] = {"driver": target.driver.name, "finalizers": None, "controllerPublishSecretRef": ref}
    await target.create(a_held_pv(long["pv"], target.handle(long["pv"]), **how))
    async with target.attaching():
        va = await target.create(a_va(long["va"], long["pv"], long["node"], attacher=target.driver.name))
        await target.attached(va)
        assert ({node_id}, {"k" * 253: "v"}) == (
            target.where(long["pv"]),
            dict(target.driver.made(PUBLISH)[0].request.secrets),
        )
        await target.detached(va)
    assert {} == target.left_over()


@on_every_target
async def test_strange_letters_arrive_as_they_are(target: Target) -> None:
    handle, node = f"{target.suffix}{STRANGE}", await target.node()
    attributes = {STRANGE: STRANGE, "": "empty", "k": ""}
    pv = await target.volume(handle=handle, volumeAttributes=attributes, fsType=STRANGE)
    target.driver.publish_context = {STRANGE: STRANGE}
    async with target.attaching("-v=5"):
        va = await target.want(pv, node)
        metadata = (await target.attached(va))["status"]["attachmentMetadata"]
        request = target.driver.made(PUBLISH)[0].request
        assert (handle, attributes, STRANGE) == (
            request.volume_id,
            dict(request.volume_context),
            request.volume_capability.mount.fs_type,
        )
        assert {STRANGE: STRANGE} == metadata
        await target.detached(va)
    assert {} == target.left_over()


@on_every_target
async def test_a_mebibyte_of_attributes(target: Target) -> None:
    attributes = {f"key{number}": "v" * 1024 for number in range(900)}
    pv, node = await target.volume(volumeAttributes=attributes), await target.node()
    async with target.attaching("-v=5"):
        va = await target.want(pv, node)
        await target.attached(va)
        assert attributes == dict(target.driver.made(PUBLISH)[0].request.volume_context)
        await target.detached(va)
    assert {} == target.left_over()


@pytest.mark.parametrize("size", [1024, 2000, MEBIBYTE], ids=["fits", "too-long", "a-mebibyte"])
@on_every_target
async def test_an_error_message_is_shown_as_far_as_there_is_room(target: Target, size: int) -> None:
    prefix = "rpc error: code = Internal desc = "
    message = (STRANGE * (size // 20))[: size - len(prefix)].encode()[: size - len(prefix)].decode(errors="ignore")
    target.driver.always(PUBLISH, Fail(Code.INTERNAL, message))
    pv, node = await target.volume(), await target.node()
    async with target.attaching(SOON):
        va = await target.want(pv, node)
        error = await target.error(va)
        assert 13 == error["errorCode"]
        told = error["message"]
        assert len(told.encode()) <= 1024
        if size <= 1024:
            assert prefix + message == told
        else:
            assert told.endswith("...")
            assert (prefix + message).startswith(told.removesuffix("..."))
            assert len(told.encode()) > 1000
        target.driver.forget_scripts()
        assert "attachError" not in (await target.attached(va))["status"]


@on_every_target
async def test_a_publish_context_that_the_server_will_not_take_is_told(target: Target) -> None:
    pv, node = await target.volume(), await target.node()
    target.driver.publish_context = {"k": "v" * (256 * 1024)}
    async with target.attaching(SOON):
        va = await target.want(pv, node)
        message = (await target.error(va))["message"]
        assert message.startswith("could not save the driver's publish_context: ")
        assert "attachmentMetadata" in message
        await _other_volume(target, node)
        await target.detached(va)
    assert {} == target.left_over()


async def _other_volume(target: Target, node: str) -> None:
    target.driver.publish_context = {}
    await _serves_others(target, node)


@on_every_target
async def test_a_secret_that_is_no_text_is_named_and_not_shown(target: Target) -> None:
    secret = await target.secret({"good": "Z29vZA==", "binary": base64.b64encode(b"hush\xff\xfe").decode()})
    pv, node = (
        await target.volume(controllerPublishSecretRef={"name": secret, "namespace": "default"}),
        await target.node(),
    )
    async with target.attaching(SOON):
        va = await target.want(pv, node)
        message = (await target.error(va))["message"]
        assert message.startswith(f'failed to load secret "default/{secret}": key "binary" of secret')
        assert "not valid UTF-8" in message
        assert "hush" not in message
        await _serves_others(target, node)
        assert [] == [call for call in target.driver.calls if call.request.volume_id == target.handle(pv)]
        await target.patch("Secret", secret, {"data": {"binary": "b2s="}}, namespace="default")
        await target.attached(va)
        assert {"good": "good", "binary": "ok"} == dict(target.driver.made(PUBLISH)[-1].request.secrets)


@on_every_target
async def test_a_node_without_drivers_is_told(target: Target) -> None:
    node = await target.create({**a_csi_node(target.name("node"), {}), "spec": {"drivers": []}})
    pv = await target.volume()
    async with target.attaching("--retry-interval-start=1h"):
        va = await target.want(pv, node)
        assert f"CSINode {node} does not contain driver {target.driver.name}" == (await target.error(va))["message"]
        driver = {"name": target.driver.name, "nodeID": target.node_id(node), "topologyKeys": None}
        await target.patch("CSINode", node, {"spec": {"drivers": [driver]}})
        await target.attached(va)
