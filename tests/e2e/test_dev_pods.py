"""Pods in `mooring dev`: their volumes on real mounts that nobody else sees, and that end with it, however it ends."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from mooring.driver.hostpath.statefile import read_state
from mooring.mounts import loops
from mooring.mounts.mountinfo import MountTable, parse
from tests.support.layers import REAL_MOUNTS, not_tested
from tests.support.loop_devices import needs_loop_devices
from tests.support.mooring_dev import MOORING, dev, dev_to_kill, needs_mounts
from tests.support.programs import Program
from tests.support.real import binary
from tests.support.waiting import eventually

pytestmark = pytest.mark.slow

CLAIM = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "claim"},
    "spec": {
        "storageClassName": "hostpath",
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "16Mi"}},
    },
}
BLOCK = {**CLAIM, "metadata": {"name": "block"}, "spec": {**CLAIM["spec"], "volumeMode": "Block"}}  # type: ignore[dict-item]


def pod(name: str = "pod", *, block: bool = False, inline: bool = False, node: str = "") -> dict[str, object]:
    """With the claim as a folder; block: and the other one as a device. inline: with a volume of its own in place of
    them.
    """
    container: dict[str, object] = {
        "name": "main",
        "image": "none",
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }
    source = (
        {"csi": {"driver": "hostpath.csi.mooring"}} if inline else {"persistentVolumeClaim": {"claimName": "claim"}}
    )
    volumes: list[object] = [{"name": "data", **source}]
    if block:
        container["volumeDevices"] = [{"name": "device", "devicePath": "/dev/data"}]
        volumes.append({"name": "device", "persistentVolumeClaim": {"claimName": "block"}})
    spec = {"containers": [container], "volumes": volumes, **({"nodeName": node} if node else {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


class Kubectl:
    """The real one, on one cluster."""

    def __init__(self, kubeconfig: Path) -> None:
        self._environment = {**os.environ, "KUBECONFIG": str(kubeconfig), "HOME": str(kubeconfig.parent)}

    def __call__(self, *words: str, given: str = "") -> str:
        done = subprocess.run(
            [binary("kubectl"), *words],
            input=given,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert 0 == done.returncode, done.stdout + done.stderr
        return done.stdout

    def apply(self, *bodies: object) -> None:
        self("apply", "-f", "-", given=yaml.safe_dump_all(bodies))

    def ready(self, *names: str) -> None:
        self("wait", "--for=condition=Ready", "--timeout=30s", *(f"pod/{name}" for name in names))

    def left(self) -> str:
        return self("get", "pods,volumeattachments,pv", "-A", "-o", "name")


def mounts_seen_by(pid: int | str, folder: Path) -> list[str]:
    table = MountTable(parse(Path(f"/proc/{pid}/mountinfo").read_text()))
    return [mount.point for mount in table.below(str(folder))]


def pods_volume(pid: int, state: Path) -> Path:
    """As others see it who may look into the process."""
    (found,) = Path(f"/proc/{pid}/root{state}/nodes").glob("*/pods/*/volumes/kubernetes.io~csi/*/mount")
    return found


def left_below(state: Path) -> list[str]:
    """What the agents' folders hold of pods and volumes."""
    nodes = state / "nodes"
    files = [path for path in nodes.rglob("*") if not path.is_dir() and path.name != ".mooring-node.lock"]
    folders = [*nodes.glob("*/pods/*"), *nodes.glob("*/plugins/kubernetes.io/csi/hostpath.csi.mooring/*")]
    return sorted(str(path) for path in (*files, *folders))


def is_empty(state: Path) -> None:
    assert [] == left_below(state)
    assert {} == dict(read_state(state / "driver").volumes)
    assert [] == list((state / "driver" / "volumes").iterdir())


@pytest.fixture(autouse=True)
def _mounts() -> None:
    needs_mounts()


@pytest.fixture
def state(tmp_path: Path) -> Iterator[Path]:
    yield (found := tmp_path / "state")
    assert [] == mounts_seen_by("self", found), "mounted on the machine"


def test_a_volume_that_no_container_uses_is_told_once(tmp_path: Path) -> None:
    body = pod()
    body["spec"]["containers"] = [{"name": "main", "image": "none"}]  # type: ignore[index]
    with dev(tmp_path) as (program, config):
        kubectl = Kubectl(config)
        kubectl.apply(CLAIM, body)
        kubectl.ready("pod")
        text = "pod default/pod: volume data is used by no container: the kubelet does not mount it"
        eventually(lambda: text in program.output_alive(), 10, text)
        kubectl("delete", "pod/pod", "pvc/claim")
        assert 1 == program.output().count(text)


def test_a_pod_runs_on_a_mount_of_its_own_and_kubectl_delete_ends(tmp_path: Path, state: Path) -> None:
    with dev(tmp_path, f"--state={state}", "--nodes=2") as (program, config):
        kubectl = Kubectl(config)
        kubectl.apply(CLAIM, pod())
        kubectl.ready("pod")
        path = pods_volume(program.pid, state)
        (path / "file").write_text("from the pod")
        assert 2 == len(mounts_seen_by(program.pid, state)), "staged, and published"
        assert [] == mounts_seen_by("self", state), "nobody else sees it"
        (volume,) = (state / "driver" / "volumes").iterdir()
        assert "from the pod" == (volume / "file").read_text()
        assert f"  ls /proc/{program.pid}/root{state}/nodes/*/pods\n" in program.output(), (
            "people are told where to look"
        )
        kubectl("delete", "pod", "pod", "--timeout=20s")
        kubectl.apply(pod("next"))
        kubectl.ready("next")
        assert "from the pod" == (pods_volume(program.pid, state) / "file").read_text()
        kubectl("delete", "pod", "next", "--timeout=20s")
        kubectl("delete", "pvc", "claim", "--timeout=20s")
        eventually(lambda: not kubectl.left(), 20, "no pod, no attachment, no volume")
        assert [] == mounts_seen_by(program.pid, state)
        is_empty(state)


def test_a_volume_follows_its_pods_from_node_to_node(tmp_path: Path, state: Path) -> None:
    with dev(tmp_path, f"--state={state}", "--node-id=a,b") as (program, config):
        kubectl = Kubectl(config)
        kubectl.apply(CLAIM)
        for node in ("a", "b", "a"):
            kubectl.apply(pod(node=node))
            kubectl.ready("pod")
            assert f"/nodes/{node}/" in str(pods_volume(program.pid, state))
            kubectl("delete", "pod", "pod", "--timeout=20s")


def a_killed_dev(folder: Path, state: Path, *bodies: object, names: tuple[str, ...]) -> None:
    """With these pods running when it is killed."""
    with dev_to_kill(folder, f"--state={state}", "--nodes=1") as (program, config):
        kubectl = Kubectl(config)
        kubectl.apply(*bodies)
        kubectl.ready(*names)
        assert mounts_seen_by(program.pid, state)
    assert [] == mounts_seen_by("self", state)


@pytest.mark.long
@pytest.mark.parametrize("deleted_first", [False, True], ids=["which goes on", "which is deleted at once"])
def test_a_killed_dev_leaves_nothing_mounted_and_the_next_one_finds_its_pod(
    tmp_path: Path, state: Path, deleted_first: bool
) -> None:
    a_killed_dev(tmp_path, state, CLAIM, pod(), pod("own", inline=True), names=("pod", "own"))
    with dev(tmp_path, f"--state={state}", "--nodes=1") as (program, config):
        kubectl = Kubectl(config)
        if not deleted_first:
            eventually(lambda: 4 <= len(mounts_seen_by(program.pid, state)), 20, "mounted again")
        kubectl("delete", "pod", "pod", "own", "--timeout=20s")
        kubectl("delete", "pvc", "claim", "--timeout=20s")
        eventually(lambda: not kubectl.left(), 20, "no pod, no attachment, no volume")
        assert [] == mounts_seen_by(program.pid, state)
        is_empty(state)


def loop_devices(folder: Path) -> set[str]:
    """Those over a file below the folder, and those over one of these. Other tests have theirs at the same time."""
    backing = {}
    for entry in Path("/sys/block").glob("loop*/loop/backing_file"):
        with contextlib.suppress(OSError):  # it was given back just now
            backing[entry.parts[3]] = entry.read_text(errors="surrogateescape").strip()
    found = {device for device, name in backing.items() if name.startswith(f"{folder}/")}
    return found | {device for device, name in backing.items() if name.removeprefix("/dev/") in found}


def no_loop_device_is_left(folder: Path) -> None:
    """One that was given back goes when the last program closes it: another test's losetup has it open for a moment."""
    eventually(lambda: not loop_devices(folder), 10, "no loop device is left")


def test_a_raw_device_is_given_back_also_after_a_kill(tmp_path: Path, state: Path) -> None:
    needs_loop_devices()
    a_killed_dev(tmp_path, state, CLAIM, BLOCK, pod(block=True), names=("pod",))
    with dev(tmp_path, f"--state={state}", "--nodes=1") as (program, config):
        kubectl = Kubectl(config)
        eventually(
            lambda: re.search("NodePublishVolume .*volumeDevices.*→ OK", program.output_alive()),
            20,
            "it is there again",
        )
        (volume,) = [path for path in (state / "driver" / "volumes").iterdir() if path.is_file()]
        assert loops.devices(volume)
        kubectl("delete", "pod", "pod", "--timeout=20s")
        kubectl("delete", "pvc", "claim", "block", "--timeout=20s")
        eventually(lambda: not kubectl.left(), 20, "no pod, no attachment, no volume")
        is_empty(state)
        no_loop_device_is_left(tmp_path)


def test_what_a_killed_dev_has_left_goes_with_the_next_start(tmp_path: Path) -> None:
    """Item A11 of issue 27: the driver's device, the agent's over it, and the folder."""
    needs_loop_devices()
    with dev_to_kill(tmp_path) as (_, config):
        kubectl = Kubectl(config)
        kubectl.apply(CLAIM, BLOCK, pod(block=True))
        kubectl.ready("pod")
        assert "1/1" in kubectl("get", "pods", "--no-headers")
        assert 2 == len(loop_devices(tmp_path))
    assert [config.parent.name] == os.listdir(tmp_path / "tmp")
    with dev(tmp_path) as (program, _):
        assert f"{config.parent} is removed: a run that was killed had left it" in " ".join(program.output().split())
        assert config.parent.name not in os.listdir(tmp_path / "tmp")
        no_loop_device_is_left(tmp_path)  # the driver's would still be there, busy, under the agent's


def test_pods_end_with_a_dev_that_keeps_nothing(tmp_path: Path) -> None:
    needs_loop_devices()
    with dev(tmp_path) as (program, config):
        kubectl = Kubectl(config)
        kubectl.apply(CLAIM, BLOCK, pod(block=True))
        kubectl.ready("pod")
    assert "NodeUnstageVolume" in program.output()
    assert [] == os.listdir(tmp_path / "tmp")
    no_loop_device_is_left(tmp_path)


NOT_ROOT = "/usr/bin/python3"
"""For a user who may not read the folder of the tests' own Python."""


def as_somebody(command: list[str]) -> list[str]:
    """The command as a user without rights, in a Python that everybody may run. The packages are those of the tests."""
    packages = [path for path in sys.path if path.endswith("site-packages")]
    python = f"PYTHONPATH={':'.join([str(Path(MOORING_SOURCE)), *packages])}"
    return [
        "setpriv",
        "--reuid=1000",
        "--regid=1000",
        "--clear-groups",
        "env",
        python,
        "PYTHONDONTWRITEBYTECODE=1",
        NOT_ROOT,
        *command[1:],
    ]


MOORING_SOURCE = Path(__file__).resolve().parents[2] / "src"


def test_without_root_the_demo_mounts_in_a_user_namespace(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        not_tested(REAL_MOUNTS, "this run has no rights anyway: the demo's own test is this one")
    command = as_somebody([*MOORING, "demo"])
    trial = subprocess.run(
        [*command[:-3], "-c", "import hpack, cryptography, mooring"], capture_output=True, text=True, check=False
    )
    if trial.returncode != 0:
        not_tested(
            REAL_MOUNTS,
            f"{NOT_ROOT} can't run Mooring for a user without rights: {trial.stderr.strip().splitlines()[-1]}",
        )
    home = tmp_path / "home"
    home.mkdir()
    os.chown(home, 1000, 1000)
    for parent in (tmp_path, *tmp_path.parents):
        if parent.stat().st_mode & 0o005 != 0o005:
            parent.chmod(parent.stat().st_mode | 0o011)
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "TMPDIR": str(home), "HOME": str(home)},
    )
    assert 0 == done.returncode, done.stdout + done.stderr
    assert "ok: /proc/self/mountinfo: published to the pod at" in done.stdout
    assert [] == os.listdir(home)


def test_where_nothing_can_be_mounted_it_says_so_and_shows_links(tmp_path: Path) -> None:
    """Without the capability to make namespaces of either sort, as in most containers."""
    aside = ["unshare", "--mount"] if os.geteuid() == 0 else []  # what root mounts after all is seen by nobody
    no_namespaces = [*aside, "sh", "-c", NO_NAMESPACES, "sh"]
    program = Program([*no_namespaces, *MOORING, "demo"], tmp_path / "log", {**os.environ, "TMPDIR": str(tmp_path)})
    try:
        code = program.wait_exit(60)
    finally:
        program.kill()
    output = program.output()
    if "no user namespaces to take away" in output or "unshare failed" in output:
        not_tested(REAL_MOUNTS, "the number of namespaces can't be limited here")
    assert 0 == code, output
    last = (
        r"(?m)^NOT SHOWN: real mounts: no mount namespace: .*none in a user namespace: unshare: .*\n +to see it: .*\n\Z"
    )
    assert re.search(last, output)
    assert "shown by links" not in output
    assert "ok: the pod's path leads to the volume: " in output
    assert 'ok: greeting.txt says "written by the first pod"' in output
    assert (
        "Made, bound, attached and written to, through links in place of mounts; moved to another node and read;"
        in output
    )


# A user namespace whose own limit of namespaces is none: its root may make neither sort.
NO_NAMESPACES = """
exec unshare --user --map-root-user sh -c '
for limit in max_mnt_namespaces max_user_namespaces; do
    echo 0 > /proc/sys/user/$limit || { echo no user namespaces to take away; exit 1; }
done
exec setpriv --bounding-set=-sys_admin --inh-caps=-sys_admin "$@"' sh "$@"
"""
