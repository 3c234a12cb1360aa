"""SELinux labels of volumes: where a host has them, which label a pod's volume gets, and pods that want different
ones.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mooring.api.pods import PODS, Pod
from mooring.node.volumes import controller
from mooring.node.volumes.pods import selinux
from mooring.node.volumes.pods.selinux import LabelConflict, default_context, mount_label
from mooring.node.volumes.state.desired import Volume
from mooring.node.volumes.state.folders import RECORD
from tests.support.builders import CONTAINER, a_pod, typed
from tests.support.node_driver import PUBLISH, STAGE, UNPUBLISH, UNSTAGE
from tests.support.rows import each_row
from tests.support.virtual_loop import in_virtual_time
from tests.unit.node.volume_world import VolumesWorld, world

HOST = "system_u:object_r:container_file_t:s0"
ONE_POD = ("ReadWriteOncePod",)


CONTEXTS = f'process = "x"\nfile = "{HOST}"\n'


def a_host(root: Path, *, enabled: bool = True, policy: str = "SELINUXTYPE=strict\n") -> Path:
    files = {"etc/selinux/config": policy, "etc/selinux/strict/contexts/lxc_contexts": CONTEXTS}
    if enabled:
        files["sys/fs/selinux/enforce"] = "1"
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True)
        (root / path).write_text(text)
    return root


def labelled(level: str, *containers: str | None, **security: Any) -> Pod:
    """level: of the pod. containers: each with its own level, None for none of its own. All of them mount `vol`."""
    made = [
        {**CONTAINER, "name": f"c{number}", "volumeMounts": [{"name": "vol", "mountPath": "/v"}], **_security(own)}
        for number, own in enumerate(containers or (None,))
    ]
    return typed(a_pod("p", containers=made, securityContext={"seLinuxOptions": {"level": level}, **security}))


def _security(level: str | None) -> dict[str, Any]:
    return {} if level is None else {"securityContext": {"seLinuxOptions": {"level": level}}}


def test_a_host_with_selinux_has_the_label_of_its_policys_container_files(tmp_path: Path) -> None:
    assert HOST == default_context(a_host(tmp_path))


def test_a_host_without_selinux_has_none(tmp_path: Path) -> None:
    assert "" == default_context(a_host(tmp_path, enabled=False))


def test_a_policy_without_contexts_has_none(tmp_path: Path) -> None:
    assert "" == default_context(a_host(tmp_path, policy="SELINUXTYPE=other\n"))


@each_row(
    ("pod", "label"),
    [
        pytest.param(labelled("s0:c1,c2"), "system_u:object_r:container_file_t:s0:c1,c2", id="of-the-pod"),
        pytest.param(labelled("s0:c1", "s0:c9"), "system_u:object_r:container_file_t:s0:c9", id="of-its-container"),
        pytest.param(
            labelled("s0:c1", "s0:c1", None), "system_u:object_r:container_file_t:s0:c1", id="containers-agree"
        ),
        pytest.param(
            labelled("s0:c1", seLinuxOptions={"user": "u", "level": "s0:c1"}),
            "u:object_r:container_file_t:s0:c1",
            id="user",
        ),
        pytest.param(labelled(""), "", id="no-level"),
        pytest.param(labelled("s0:c1", seLinuxOptions=None), "", id="no-options"),
        pytest.param(
            labelled("", None, "s0:c1", seLinuxOptions=None),
            "system_u:object_r:container_file_t:s0:c1",
            id="a-container-without-options-disagrees-with-nobody",
        ),
        pytest.param(labelled("s0:c1", seLinuxChangePolicy="Recursive"), "", id="file-by-file-as-the-pod-says"),
    ],
)
def test_the_label_of_a_pods_volume(pod: Pod, label: str) -> None:
    assert label == mount_label(HOST, pod, "vol")
    assert "" == mount_label("", pod, "vol"), "on a host without SELinux there is none"
    assert "" == mount_label(HOST, pod, "other"), "no container mounts it"


def test_containers_that_disagree_are_told() -> None:
    with pytest.raises(LabelConflict, match="different SELinux labels"):
        mount_label(HOST, labelled("s0:c1", "s0:c1", "s0:c2"), "vol")


def test_a_container_without_a_level_disagrees_with_one_that_has_one() -> None:
    with pytest.raises(LabelConflict, match="different SELinux labels"):
        mount_label(HOST, labelled("", None, "s0:c1"), "vol")


def test_no_label_is_no_option_at_all() -> None:
    volume = Volume("u", "d", "h", "pv", mount_options=("ro",))
    assert ("ro",) == volume.labelled("").mount_options
    assert ("ro", 'context="a:b:c:s0"') == volume.labelled("a:b:c:s0").mount_options


@pytest.fixture
def on_selinux(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(controller, "default_context", lambda: HOST)
    assert selinux.default_context() == "" or Path("/sys/fs/selinux/enforce").exists()


def options(level: str) -> dict[str, Any]:
    return {"securityContext": {"seLinuxOptions": {"level": level}}}


@in_virtual_time
async def test_the_label_is_an_option_of_staging_and_publishing_and_stands_in_the_records(
    world: VolumesWorld, on_selinux: None
) -> None:
    await world.no_attach(seLinuxMount=True)
    label = "system_u:object_r:container_file_t:s0:c1"
    async with world.agent():
        volume = await world.volume(modes=ONE_POD, attached=False, pv={"mountOptions": ["noatime"]})
        pod = await world.running_pod(volume, **options("s0:c1"))
        for method in (STAGE, PUBLISH):
            assert ["noatime", f'context="{label}"'] == list(world.request(method).volume_capability.mount.mount_flags)
        for folder in (world.staging(volume).parent, world.target(pod, "vol").parent):
            assert label == (world.record(folder) or {})["seLinuxMountContext"]


@in_virtual_time
async def test_of_a_driver_that_does_not_stage_the_first_pod_s_label_counts(
    world: VolumesWorld, on_selinux: None
) -> None:
    """It was staged under no label, so it seemed, and was taken back for the label that the pod wants, on and on."""
    await world.no_attach(seLinuxMount=True)
    world.driver.able = ()
    async with world.agent():
        volume = await world.volume(modes=ONE_POD, attached=False)
        first = await world.pod(volume, **options("s0:c1"))
        await world.settle(0.5)
        assert [PUBLISH] == world.driver.calls_for_volumes()
        second = await world.pod(volume, **options("s0:c2"))
        await world.until_told(second, "already in use by another pod")
        await world.delete_pod(first)
        await world.shown(PODS, second["metadata"]["name"], lambda pod: pod["status"]["phase"] == "Running", "runs")
        flags = [list(call.request.volume_capability.mount.mount_flags) for call in world.driver.made(PUBLISH)]
        assert [[f'context="system_u:object_r:container_file_t:s0:c{number}"'] for number in (1, 2)] == flags


@each_row(
    ("spec", "modes"),
    [({"seLinuxMount": False}, ONE_POD), ({"seLinuxMount": True}, ("ReadWriteOnce",))],
    fresh=[world, on_selinux],
)
@in_virtual_time
async def test_without_the_drivers_word_or_for_several_pods_there_is_no_label(
    world: VolumesWorld, on_selinux: None, spec: dict[str, Any], modes: tuple[str, ...]
) -> None:
    await world.no_attach(**spec)
    async with world.agent():
        volume = await world.volume(modes=modes, attached=False)
        await world.running_pod(volume, **options("s0:c1"))
        assert [] == list(world.request(STAGE).volume_capability.mount.mount_flags)
        assert "seLinuxMountContext" not in (world.record(world.staging(volume).parent) or {})


@in_virtual_time
async def test_another_label_waits_until_the_volume_has_left_the_node(world: VolumesWorld, on_selinux: None) -> None:
    """Also over a restart: the label that it was mounted with is read from the records."""
    await world.no_attach(seLinuxMount=True)
    volume = await world.volume(modes=ONE_POD, attached=False)
    async with world.agent():
        first = await world.running_pod(volume, **options("s0:c1"))
    async with world.agent():
        second = await world.pod(volume, **options("s0:c2"))
        await world.until_told(second, "already in use by another pod")
        await world.delete_pod(first)
        await world.shown(PODS, second["metadata"]["name"], lambda pod: pod["status"]["phase"] == "Running", "runs")
        assert [UNPUBLISH, UNSTAGE, STAGE, PUBLISH] == world.driver.calls_for_volumes()[-4:]
        assert (
            'context="system_u:object_r:container_file_t:s0:c2"'
            in world.request(STAGE).volume_capability.mount.mount_flags
        )


@in_virtual_time
async def test_what_is_found_at_a_start_is_staged_again_under_its_own_label(
    world: VolumesWorld, on_selinux: None
) -> None:
    """The pod that has it comes after one that wants another label."""
    await world.no_attach(seLinuxMount=True)
    volume = await world.volume(modes=ONE_POD, attached=False)
    async with world.agent():
        await world.running_pod(volume, name="b", **options("s0:c1"))
    world.driver.calls.clear()
    await world.pod(volume, name="a", **options("s0:c2"))
    async with world.agent():
        await world.until_calls(STAGE, PUBLISH)
        flags = [call.request.volume_capability.mount.mount_flags for call in world.driver.made(STAGE, PUBLISH)]
        assert [['context="system_u:object_r:container_file_t:s0:c1"']] * 2 == flags


@in_virtual_time
async def test_what_no_record_tells_of_at_a_start_has_the_label_of_the_pod_in_whose_folder_it_is(
    world: VolumesWorld, on_selinux: None
) -> None:
    await world.no_attach(seLinuxMount=True)
    world.driver.able = ()
    async with world.agent():
        pod = await world.running_pod(await world.volume(modes=ONE_POD, attached=False), **options("s0:c1"))
    (world.target(pod, "vol").parent / RECORD).write_text("{")
    world.driver.calls.clear()
    async with world.agent():
        await world.until_calls(PUBLISH)
        assert ['context="system_u:object_r:container_file_t:s0:c1"'] == list(
            world.request(PUBLISH).volume_capability.mount.mount_flags
        )
