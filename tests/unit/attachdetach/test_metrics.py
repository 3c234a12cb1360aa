"""What the controller counts, what it keeps of objects, and that it forgets."""

from __future__ import annotations

import pytest

from mooring.api.core import NODES, Node, PersistentVolume, PersistentVolumeClaim
from mooring.api.pods import Pod
from mooring.api.storage import CSIDriver, VolumeAttachment
from mooring.control.slim import Part, check
from mooring.controllers.attachdetach import identity
from tests.support.attachdetaching import AttachDetachWorld
from tests.support.builders import a_pod, typed
from tests.support.virtual_loop import in_virtual_time

PLUGIN = "kubernetes.io/csi:csi.test"
MASKS = {
    "node": (identity.NODE, Node),
    "pod": (identity.keeps_of_pod(typed(a_pod("p", "claim"))), Pod),
    "claim": (identity.CLAIM, PersistentVolumeClaim),
    "volume": (identity.VOLUME, PersistentVolume),
    "attachment": (identity.ATTACHMENT, VolumeAttachment),
    "driver": (identity.DRIVER, CSIDriver),
}


@pytest.mark.parametrize(("mask", "struct"), MASKS.values(), ids=MASKS)
def test_every_field_that_is_kept_exists(mask: Part | None, struct: type) -> None:
    assert mask is not None
    check(mask, struct)


def test_pods_without_claims_are_not_kept() -> None:
    assert identity.keeps_of_pod(typed(a_pod("p", volumes=[{"name": "inline", "csi": {"driver": "d"}}]))) is None


@in_virtual_time
async def test_volumes_and_operations_are_counted() -> None:
    world = AttachDetachWorld()

    def count(name: str, **labels: str) -> float | None:
        return world.metrics.registry.get_sample_value(name, labels)

    operation = {"volume_plugin": PLUGIN, "status": "success", "migrated": "false"}
    async with world.controlling():
        volume = await world.volume()
        node = await world.node()
        pod = await world.pod(node, volume)
        await world.wait_va(volume, node)
        await world.settle(3)
        await world.attach(volume, node)
        await world.settle()
        assert 1 == count("storage_count_attachable_volumes_in_use", node=node, volume_plugin=PLUGIN)
        for state in ("desired_state_of_world", "actual_state_of_world"):
            assert 1 == count("attachdetach_controller_total_volumes", plugin_name=PLUGIN, state=state)
        attach_s = count("storage_operation_duration_seconds_sum", operation_name="volume_attach", **operation)
        assert attach_s is not None
        assert 3 <= attach_s < 4
        await world.delete_pod(pod)
        await world.wait_no_va(volume, node)
        await world.settle()
        assert 1 == count("storage_operation_duration_seconds_count", operation_name="volume_detach", **operation)
        assert count("attachdetach_controller_total_volumes", plugin_name=PLUGIN, state="actual_state_of_world") is None


@in_virtual_time
async def test_nothing_is_remembered_of_what_is_gone() -> None:
    world = AttachDetachWorld()
    async with world.controlling() as controller:
        volume = await world.volume()
        node, pod = await world.attached(volume)
        await world.delete_pod(pod)
        await world.wait_no_va(volume, node)
        await world.remove(NODES, node)
        await world.settle(60)
        memory = controller.view.memory
        assert ([], ()) == (list(memory.records()), memory.nodes())
