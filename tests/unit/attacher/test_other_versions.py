"""Item A6 of issue 27: an attachment to a node whose CSINode names another version of the driver is told."""

from __future__ import annotations

import pytest

from mooring.api.driver_versions import DRIVER_VERSIONS
from mooring.api.storage import CSI_NODES
from tests.support.attaching import AttacherWorld
from tests.support.builders import DRIVER, a_held_pv, a_va
from tests.support.rows import each_row

OTHER = "another version of the driver"


async def a_world(noted: str | None) -> AttacherWorld:
    world = await AttacherWorld().base()
    if noted is not None:
        await note(world, noted)
    return world


async def note(world: AttacherWorld, text: str) -> None:
    await world.patch(CSI_NODES, "node1", {"metadata": {"annotations": {DRIVER_VERSIONS: text}}})


@each_row(
    ("noted", "is_told"),
    [
        pytest.param(f'{{"{DRIVER}":"9.9"}}', True, id="another"),
        pytest.param(f'{{"{DRIVER}":"1"}}', False, id="the-same"),
        pytest.param('{"other.driver":"9.9"}', False, id="of-another-driver"),
        pytest.param(None, False, id="a-kubelet-notes-none"),
        pytest.param("{", False, id="broken"),
    ],
)
async def test_another_version_on_the_node_is_told_and_the_volume_attached(
    noted: str | None, is_told: bool, caplog: pytest.LogCaptureFixture
) -> None:
    world = await a_world(noted)
    async with world.attaching(a_va()):
        await world.attached()
    assert is_told == (OTHER in caplog.text)
    if is_told:
        assert 'node="node1"' in caplog.text
        assert 'version_there="9.9"' in caplog.text
        assert 'version="1"' in caplog.text


async def test_it_is_told_once_for_each_version(caplog: pytest.LogCaptureFixture) -> None:
    world = await a_world(f'{{"{DRIVER}":"9.9"}}')
    async with world.attaching(a_va()):
        await world.attached()
        await world.create(a_held_pv("pv2", "h2"), a_va("va2", pv="pv2"))
        await world.attached("va2")
        assert 1 == caplog.text.count(OTHER)
        await note(world, f'{{"{DRIVER}":"9.10"}}')
        await world.settle()
        await world.create(a_held_pv("pv3", "h3"), a_va("va3", pv="pv3"))
        await world.attached("va3")
    assert 2 == caplog.text.count(OTHER)
