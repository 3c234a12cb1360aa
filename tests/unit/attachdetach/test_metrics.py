"""What the controller counts, what it keeps of objects, and that it forgets."""

from __future__ import annotations

from mooring.api.core import NODES, Node, PersistentVolume, PersistentVolumeClaim
from mooring.api.pods import Pod
from mooring.api.storage import CSIDriver, VolumeAttachment
from mooring.cluster.attachdetach import identity
from mooring.control.slim import Part, check
from tests.support.attachdetaching import FORCED, AttachDetachWorld, attaching
from tests.support.builders import a_csi_driver, a_pod, typed
from tests.support.rows import each_row
from tests.support.virtual_loop import in_virtual_time

IN_TREE = {"name": "disk", "gcePersistentDisk": {"pdName": "disk"}}
PLUGIN = "kubernetes.io/csi:csi.test"
MASKS = {
    "node": (identity.NODE, Node),
    "pod": (identity.keeps_of_pod(typed(a_pod("p", "claim"))), Pod),
    "claim": (identity.CLAIM, PersistentVolumeClaim),
    "in-tree pod": (identity.keeps_of_pod(typed(a_pod("p", volumes=[IN_TREE]))), Pod),
    "volume": (identity.VOLUME, PersistentVolume),
    "in-tree volume": (identity.IN_TREE_VOLUME, PersistentVolume),
    "attachment": (identity.ATTACHMENT, VolumeAttachment),
    "driver": (identity.DRIVER, CSIDriver),
}


@each_row(("mask", "struct"), MASKS.values(), ids=MASKS)
def test_every_field_that_is_kept_exists(mask: Part | None, struct: type) -> None:
    assert mask is not None
    check(mask, struct)


def test_pods_without_claims_are_not_kept() -> None:
    assert identity.keeps_of_pod(typed(a_pod("p", volumes=[{"name": "inline", "csi": {"driver": "d"}}]))) is None


def a_pod_of(name: str, kind: str, owner: str, revision: str = "") -> Pod:
    owners = [{"apiVersion": "apps/v1", "kind": kind, "name": owner, "uid": "u", "controller": True}]
    labels = {"pod-template-hash": revision} if revision else {}
    found: Pod = typed(
        a_pod(
            name, "claim", labels=labels, ownerReferences=[*owners, {"kind": "ReplicaSet", "name": "other", "uid": "v"}]
        )
    )
    return found


LONG = "a" * 60


@each_row(
    ("pod", "workload", "keeps_name"),
    [
        (a_pod_of("web-7d9f-abcde", "ReplicaSet", "web-7d9f", "7d9f"), "Deployment web", False),
        (a_pod_of("web-x-7d9f-abcde", "ReplicaSet", "web-x-7d9f", "7d9f"), "Deployment web-x", False),
        (a_pod_of("by-hand", "ReplicaSet", "web-7d9f", "7d9f"), "Deployment web", True),
        (a_pod_of(f"{LONG[:58]}abcde", "ReplicaSet", f"{LONG}-7d9f", "7d9f"), f"Deployment {LONG}", True),
        (a_pod_of("web-7d9f-abcde", "ReplicaSet", "web-7d9f"), "ReplicaSet web-7d9f", False),
        (a_pod_of("web-7d9f-abcde", "ReplicaSet", "web-7d9f", "8888"), "ReplicaSet web-7d9f", False),
        (a_pod_of("web-7d9f-abcde", "ReplicaSet", "api-8888", "7d9f"), "ReplicaSet api-8888", True),
        (a_pod_of("web-0", "StatefulSet", "web"), "StatefulSet web", False),
        (a_pod_of("web-7d9f-abcde", "Job", "web-7d9f", "7d9f"), "Job web-7d9f", False),
        (a_pod_of("web", "Machine", "web"), "Machine web", True),
        (typed(a_pod("web-7d9f-abcde", "claim", labels={"pod-template-hash": "7d9f"})), "", False),
    ],
    ids=[
        "usual",
        "dashes",
        "adopted",
        "long",
        "no template",
        "other template",
        "other name",
        "set",
        "job",
        "other kind",
        "nobody's",
    ],
)
def test_the_workload_of_a_pod_is_known_by_what_is_kept(pod: Pod, workload: str, keeps_name: bool) -> None:
    mask = identity.keeps_of_pod(pod)
    assert mask is not None
    kept = mask.of(pod)
    assert workload == identity.workload_of(pod) == identity.workload_of(kept)
    assert keeps_name == any(one.name for one in kept.metadata.owner_references or ())


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
async def test_only_volumes_that_are_attached_to_managed_nodes_are_desired_and_only_placed_pods_use_volumes() -> None:
    async with attaching() as world:
        await world.create(a_csi_driver("unattached.test", attachRequired=False))
        node, unmanaged = await world.node(), await world.node(managed=False)
        volume, unattached = await world.volume(), await world.volume(driver="unattached.test")
        await world.pod("", volume)
        await world.pod(node, unattached)
        await world.pod(unmanaged, volume)
        await world.settle()

        def count(name: str, **labels: str) -> float | None:
            return world.metrics.registry.get_sample_value(name, labels)

        in_use, total = "storage_count_attachable_volumes_in_use", "attachdetach_controller_total_volumes"
        plugins = (PLUGIN, "kubernetes.io/csi:unattached.test")
        assert [None, None] == [count(in_use, node="", volume_plugin=one) for one in plugins]
        assert [1, 1] == [
            count(in_use, node=on, volume_plugin=one) for on, one in zip((unmanaged, node), plugins, strict=True)
        ]
        assert [None, None] == [count(total, plugin_name=one, state="desired_state_of_world") for one in plugins]


@in_virtual_time
async def test_a_pod_that_has_ended_uses_its_volume_and_does_not_desire_it() -> None:
    """As upstream counts: its volume may still be mounted."""
    async with attaching() as world:
        volume = await world.volume()
        node, pod = await world.attached(volume)
        await world.pod_status(pod, "Succeeded")
        await world.settle()

        def count(name: str, **labels: str) -> float | None:
            return world.metrics.registry.get_sample_value(name, labels)

        assert 1 == count("storage_count_attachable_volumes_in_use", node=node, volume_plugin=PLUGIN)
        assert (
            count("attachdetach_controller_total_volumes", plugin_name=PLUGIN, state="desired_state_of_world") is None
        )


@in_virtual_time
async def test_forced_detaches_are_a_counter_under_upstreams_name() -> None:
    """Not under the one with the ending that OpenMetrics wants."""
    async with attaching() as world:
        lines = world.metrics.render().decode().splitlines()
        assert [f"# TYPE {FORCED} counter"] == [line for line in lines if line.startswith(f"# TYPE {FORCED}")]
        assert {f'{FORCED}{{reason="{one}"}} 0.0' for one in ("timeout", "out-of-service")} <= set(lines)


@in_virtual_time
async def test_failed_operations_are_counted_once_for_each_attempt() -> None:
    async with attaching() as world:
        volume, node = await world.volume(), await world.node()

        def failed(operation: str) -> float | None:
            labels = {
                "volume_plugin": PLUGIN,
                "operation_name": operation,
                "status": "fail-unknown",
                "migrated": "false",
            }
            return world.metrics.registry.get_sample_value("storage_operation_duration_seconds_count", labels)

        pod = await world.pod(node, volume)
        await world.wait_va(volume, node)
        for second in (1, 2):
            await world.va_status(volume, node, attachError={"message": "boom", "time": f"2026-01-01T00:00:0{second}Z"})
            await world.settle()
        assert (2, None) == (failed("volume_attach"), failed("volume_detach"))
        await world.attach(volume, node, hold=True)
        await world.delete_pod(pod)
        await world.wait_deleting(volume, node)
        await world.va_status(
            volume, node, attached=True, detachError={"message": "busy", "time": "2026-01-01T00:00:00Z"}
        )
        await world.settle()
        assert (2, 1) == (failed("volume_attach"), failed("volume_detach"))


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
        assert ([], {}) == (list(memory.records()), memory._nodes)
