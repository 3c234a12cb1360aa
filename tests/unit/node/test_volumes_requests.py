"""Requests to a driver's node service, fsGroup, growth and usage: tables of what is asked and what is made of
answers.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from mooring.api.core import PersistentVolume, PersistentVolumeClaim
from mooring.csi.errors import DriverError
from mooring.csi.proto import csi_pb2 as csi
from mooring.mounts.fs_group import Walk
from mooring.node.volumes.state.desired import Growth, PodUse, Volume, decide_growth
from mooring.node.volumes.stats import NoStats, VolumeUsage, usage_of
from mooring.node.volumes.steps import requests
from mooring.node.volumes.steps.growth import INFEASIBLE, refused_patch
from mooring.node.volumes.steps.requests import MOUNT_GROUP, MULTI_WRITER, sets_group
from mooring.wire.grpc.codes import Code
from tests.support.builders import typed
from tests.support.rows import each_row

Mode = csi.VolumeCapability.AccessMode
VOLUME = Volume("u", "d", "h", "pv", attributes={"foo": "bar"}, mount_options=("a", "b"), fs_type="ext4")
USE = PodUse("uid", "ns", "pod", "vol", service_account="someone")


def volume(**changes: Any) -> Volume:
    return msgspec.structs.replace(VOLUME, **changes)


@each_row(
    ("mode", "plain", "telling"),
    [
        ("ReadWriteOnce", Mode.SINGLE_NODE_WRITER, Mode.SINGLE_NODE_MULTI_WRITER),
        ("ReadWriteOncePod", Mode.SINGLE_NODE_WRITER, Mode.SINGLE_NODE_SINGLE_WRITER),
        ("ReadOnlyMany", Mode.MULTI_NODE_READER_ONLY, Mode.MULTI_NODE_READER_ONLY),
        ("ReadWriteMany", Mode.MULTI_NODE_MULTI_WRITER, Mode.MULTI_NODE_MULTI_WRITER),
        ("Other", Mode.UNKNOWN, Mode.UNKNOWN),
    ],
)
def test_MNT15_access_modes(mode: str, plain: int, telling: int) -> None:
    found = [
        requests.capability(volume(access_modes=(mode,)), able, None).access_mode.mode for able in ((), (MULTI_WRITER,))
    ]
    assert [plain, telling] == found


def test_MNT14_mount_options_and_the_file_system_go_along() -> None:
    mount = requests.capability(VOLUME, (), None).mount
    assert (["a", "b"], "ext4", "") == (list(mount.mount_flags), mount.fs_type, mount.volume_mount_group)


@each_row(("able", "group"), [((), ""), ((MOUNT_GROUP,), "3000")])
def test_MNT23_the_group_goes_to_drivers_that_set_it(able: tuple[int, ...], group: str) -> None:
    assert group == requests.capability(VOLUME, able, 3000).mount.volume_mount_group


def test_MNT16_what_is_injected_is_in_no_other_call() -> None:
    request = requests.publish(
        VOLUME, USE, Path("/t"), Path("/s"), (), {}, {}, {**requests.pod_info(USE), "foo": "mine"}
    )
    assert "mine" == request.volume_context["foo"]
    assert "someone" == request.volume_context["csi.storage.k8s.io/serviceAccount.name"]
    assert {"foo": "bar"} == dict(requests.stage(VOLUME, Path("/s"), (), None, {}, {}).volume_context)


@each_row(
    ("policy", "changes", "use", "able", "sets"),
    [
        pytest.param("File", {}, {"fs_group": None}, (), False, id="unset"),
        pytest.param("None", {}, {}, (), False, id="policy-None"),
        pytest.param("File", {"fs_type": "", "access_modes": ("ReadWriteMany",)}, {}, (), True, id="policy-File"),
        pytest.param("File", {}, {"read_only": True}, (), False, id="MNT-24-read-only"),
        pytest.param("ReadWriteOnceWithFSType", {"fs_type": ""}, {}, (), False, id="no-file-system"),
        pytest.param("ReadWriteOnceWithFSType", {}, {}, (), True, id="RWO"),
        pytest.param("ReadWriteOnceWithFSType", {"access_modes": ("ReadWriteOncePod",)}, {}, (), True, id="RWOP"),
        pytest.param("ReadWriteOnceWithFSType", {"access_modes": ("ReadWriteMany",)}, {}, (), False, id="RWX"),
        pytest.param("ReadWriteOnceWithFSType", {"is_inline": True, "access_modes": ()}, {}, (), True, id="inline"),
        pytest.param("File", {}, {}, (MOUNT_GROUP,), False, id="MNT-23-the-driver-does"),
    ],
)
def test_MNT22_who_gets_the_group(
    policy: str, changes: dict[str, Any], use: dict[str, Any], able: tuple[int, ...], sets: bool
) -> None:
    assert sets == sets_group(
        volume(**changes), msgspec.structs.replace(USE, **{"fs_group": 3000, **use}), policy, able
    )


def test_MNT22_the_walk_counts_and_skips_links(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "file").write_text("x")
    (tmp_path / "out").symlink_to("/etc/passwd")
    before = Path("/etc/passwd").stat()
    walk = Walk(tmp_path, tmp_path.stat().st_gid, "")
    walk.run()
    assert 4 == walk.count
    assert 0o2770 == (tmp_path / "a").stat().st_mode & 0o2770
    assert 0o660 == (tmp_path / "a" / "file").stat().st_mode & 0o660
    assert before.st_mode == Path("/etc/passwd").stat().st_mode


def test_MNT22_a_root_that_is_right_is_not_walked_on_mismatch_alone(tmp_path: Path) -> None:
    tmp_path.chmod(0o2770)
    (tmp_path / "file").write_text("x")
    walk = Walk(tmp_path, tmp_path.stat().st_gid, "OnRootMismatch")
    walk.run()
    assert 0 == walk.count


def a_claim(capacity: str = "1Gi", allocated: str = "", step: str = "") -> PersistentVolumeClaim:
    status: dict[str, Any] = {"phase": "Bound", "capacity": {"storage": capacity}}
    if allocated:
        status["allocatedResources"] = {"storage": allocated}
    if step:
        status["allocatedResourceStatuses"] = {"storage": step}
    meta = {"name": "c", "namespace": "ns", "resourceVersion": "7"}
    body = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": meta,
        "spec": {"resources": {"requests": {"storage": "2Gi"}}},
    }
    return typed({**body, "status": status})


def a_volume(size: str, mode: str = "ReadWriteOnce") -> PersistentVolume:
    spec = {"capacity": {"storage": size}, "accessModes": [mode]}
    return typed({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "pv"}, "spec": spec})


@each_row(
    ("claim", "pv", "growth"),
    [
        pytest.param(
            a_claim(allocated="2Gi", step="NodeResizePending"),
            "2Gi",
            Growth("ns", "c", "7", "2Gi", requested="2Gi"),
            id="EXP-1",
        ),
        pytest.param(
            a_claim(allocated="2Gi", step="NodeResizeInProgress"),
            "2Gi",
            Growth("ns", "c", "7", "2Gi", True, requested="2Gi"),
            id="after-a-restart",
        ),
        pytest.param(
            a_claim(allocated="2Gi", step="NodeResizeInfeasible"), "2Gi", None, id="EXP-2-waits-for-the-controller"
        ),
        pytest.param(
            a_claim(allocated="2Gi", step="ControllerResizeInProgress"), "1Gi", None, id="the-controller-is-at-work"
        ),
        pytest.param(a_claim(allocated="2Gi"), "2Gi", None, id="done"),
        pytest.param(
            a_claim(), "2Gi", Growth("ns", "c", "7", "2Gi", is_old=True, requested="2Gi"), id="an-old-resizer"
        ),
        pytest.param(a_claim("2Gi"), "2Gi", None, id="nothing-to-do"),
    ],
)
def test_growth_that_is_due(claim: PersistentVolumeClaim, pv: str, growth: Growth | None) -> None:
    assert growth == decide_growth(claim, a_volume(pv))


@each_row("mode", ["ReadWriteMany", "ReadWriteOnce", "ReadOnlyMany"])
def test_growth_that_another_node_has_written(mode: str) -> None:
    """Due for volumes that several nodes mount alone; whether it is due here, the size that the node knows says."""
    growth = Growth("ns", "c", "7", "2Gi", is_written=True, requested="2Gi") if mode == "ReadWriteMany" else None
    assert growth == decide_growth(a_claim("2Gi", allocated="2Gi"), a_volume("2Gi", mode))


@each_row(
    ("code", "requested", "failed_before", "infeasible"),
    [
        (Code.OUT_OF_RANGE, "2Gi", False, True),
        (Code.INTERNAL, "2Gi", True, False),
        (Code.INTERNAL, "1500Mi", True, True),
        (Code.INTERNAL, "1500Mi", False, False),
    ],
)
def test_EXP2_a_refusal_is_the_controller_s_when_it_can_t_be_done(
    code: Code, requested: str, failed_before: bool, infeasible: bool
) -> None:
    patch = refused_patch(
        Growth("ns", "c", "7", "2Gi", requested=requested, claim_uid="u"),
        DriverError(code, "no"),
        has_failed_before=failed_before,
        now="2026-01-01T00:00:00Z",
    )
    assert infeasible == (patch["status"].get("allocatedResourceStatuses") == {"storage": INFEASIBLE})
    assert "failed to expand pvc with rpc error: code = " in patch["status"]["conditions"][0]["message"]


def test_sizes_are_rounded_up() -> None:
    assert 1501 == Growth("ns", "c", "7", "1500100m").size_bytes


def test_usage_of_an_answer() -> None:
    unit = csi.VolumeUsage
    answer = csi.NodeGetVolumeStatsResponse(
        usage=[
            unit(unit=unit.BYTES, total=3, available=1, used=2),
            unit(unit=unit.INODES, total=9, available=8, used=1),
            unit(unit=77),
        ]
    )
    assert VolumeUsage(3, 1, 2, 9, 8, 1) == usage_of(answer)


def test_STA2_an_answer_without_anything_is_an_error() -> None:
    with pytest.raises(NoStats):
        usage_of(csi.NodeGetVolumeStatsResponse())
    condition = csi.VolumeCondition(abnormal=True, message="smoke")
    assert "smoke" == usage_of(csi.NodeGetVolumeStatsResponse(volume_condition=condition)).abnormal
