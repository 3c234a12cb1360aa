"""Item A6 of issue 27: a CSINode tells which version of a driver is registered, by a note that the agent keeps."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mooring.api.driver_versions import DRIVER_VERSIONS, versions_on
from mooring.api.meta import ObjectMeta
from mooring.api.storage import CSI_NODES, CSINode, CSINodeDriver, CSINodeSpec
from mooring.csi.proto import csi_pb2 as csi
from mooring.node.csinode.decide import decide_csinode, decide_csinode_without
from mooring.node.drivers import DriverOnNode
from tests.support.rows import each_row
from tests.support.virtual_loop import in_virtual_time
from tests.unit.node.test_plugins_at_once import AtOnce

PATH = "/metadata/annotations/mooring.dev~1driver-versions"


def a_csinode(noted: str | None, *, entered: bool = True) -> CSINode:
    notes = {"other": "x"} if noted is None else {"other": "x", DRIVER_VERSIONS: noted}
    drivers = (CSINodeDriver("d1", "id1"),) if entered else None
    return CSINode(ObjectMeta(name="n", resource_version="7", annotations=notes), CSINodeSpec(drivers=drivers))


@each_row(
    ("noted", "version", "operations"),
    [
        pytest.param(None, "1.2", [{"op": "add", "path": PATH, "value": '{"d1":"1.2"}'}], id="first"),
        pytest.param('{"d1":"1.2"}', "1.2", [], id="there"),
        pytest.param(
            '{"d1":"1.1","d2":"5"}',
            "1.2",
            [{"op": "add", "path": PATH, "value": '{"d1":"1.2","d2":"5"}'}],
            id="upgraded",
        ),
        pytest.param('{"d1":"1.1"}', "", [{"op": "remove", "path": PATH}], id="tells-none"),
        pytest.param('{"d1":"1.1"}', None, [], id="not-asked"),
        pytest.param(None, "", [], id="never-told"),
        pytest.param("{", "1.2", [{"op": "add", "path": PATH, "value": '{"d1":"1.2"}'}], id="broken"),
        pytest.param("[]", "1.2", [{"op": "add", "path": PATH, "value": '{"d1":"1.2"}'}], id="no-object"),
    ],
)
def test_the_version_of_a_driver_is_noted(
    noted: str | None, version: str | None, operations: list[dict[str, Any]]
) -> None:
    found = decide_csinode(a_csinode(noted), DriverOnNode("d1", "id1", 0, {}, version)).actions
    assert ([operations] if operations else []) == [patch.body[1:] for patch in found]


def test_a_csinode_without_annotations_gets_them() -> None:
    bare = CSINode(ObjectMeta(name="n", resource_version="7"), CSINodeSpec())
    (patch,) = decide_csinode(bare, DriverOnNode("d1", "id1", 0, {}, "1.2")).actions
    (*_, note) = patch.body
    assert {"op": "add", "path": "/metadata/annotations", "value": {DRIVER_VERSIONS: '{"d1":"1.2"}'}} == note


def test_a_driver_that_goes_takes_its_note_along() -> None:
    (patch,) = decide_csinode_without(a_csinode('{"d1":"1.2","d2":"5"}'), "d1").actions
    (*_, note) = patch.body
    assert {"op": "add", "path": PATH, "value": '{"d2":"5"}'} == note
    (patch,) = decide_csinode_without(a_csinode('{"d1":"1.2"}'), "d1").actions
    (*_, note) = patch.body
    assert {"op": "remove", "path": PATH} == note


class _Tells:
    """Beside the node service of a driver."""

    def __init__(self, world: AtOnce, version: str) -> None:
        self.version = version
        world.service.get_plugin_info = self.answer  # type: ignore[attr-defined]

    async def answer(self, _request: Any) -> csi.GetPluginInfoResponse:
        return csi.GetPluginInfoResponse(name="d1", vendor_version=self.version)


@in_virtual_time
async def test_a_registration_notes_the_version_and_the_next_one_notes_the_new_one() -> None:
    world = AtOnce(a="d1")
    told = _Tells(world, "1.2")

    async def noted() -> dict[str, str]:
        text = (await world.get(CSI_NODES, "n"))["metadata"]["annotations"].get(DRIVER_VERSIONS, "{}")
        return dict(json.loads(text))

    async with world.at_work():
        await world.settle(1.0)
        assert {"d1": "1.2"} == await noted()
        assert ["add"] == world.writes()
        await world.goes("a")
        assert {} == await noted()
        told.version = "1.3"
        await world.comes("a")
        assert {"d1": "1.3"} == await noted()


@in_virtual_time
async def test_a_driver_that_does_not_tell_its_version_is_registered() -> None:
    world = AtOnce(a="d1")
    async with world.at_work():
        await world.settle(1.0)
        assert ["d1"] == await world.names()
        assert DRIVER_VERSIONS not in (await world.get(CSI_NODES, "n"))["metadata"]["annotations"]


def test_a_note_that_can_not_be_read_tells_nothing() -> None:
    assert [{}, {}, {}, {"d": "1"}] == [versions_on(a_csinode(text)) for text in (None, "{", "[]", '{"d":1}')]
