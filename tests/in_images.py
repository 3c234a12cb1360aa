"""The images, each run as its user, on a read-only root without capabilities: `make images-test`.

Beside real parts: the embedded API server, kube-controller-manager, Go sidecars, and a driver whose volumes are
folders. Needs podman, and images that `make images` has built.
"""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import subprocess
import tomllib
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.programs import Program, free_ports
from tests.support.rows import each_row
from tests.support.storage_parts import ELECTION, StorageParts, Story
from tests.support.waiting import eventually

ROOT: Final = Path(__file__).resolve().parents[1]
VERSION: Final = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
TARGETS: Final = re.findall(r"^FROM installed AS (\S+)$", (ROOT / "Containerfile").read_text(), re.MULTILINE)
ROOTS: Final = ("csi-node-driver-registrar", "livenessprobe")
MB_MAX: Final = 40
"""What an image may add to its base."""
WAIT_S: Final = 90.0

PODMAN: Final = shutil.which("podman")
if PODMAN is None:
    pytest.exit("NOT TESTED: the images need podman to run (Debian: apt-get install --no-install-recommends podman)", 1)
_TESTED: Final = "mooring-tested"
"""The label by which what is left over is found."""
CONFINED: Final = (
    *(("--runtime", "runc") if shutil.which("runc") or Path("/usr/sbin/runc").exists() else ()),
    "run",
    "--rm",
    "--read-only",
    "--read-only-tmpfs=false",
    "--cap-drop=all",
    "--security-opt=no-new-privileges",
    "--network=host",
    f"--label={_TESTED}",
    "--ulimit=nofile=1024:1024",  # where nobody may raise limits, podman's own are refused
    "--ulimit=nproc=1024:1024",
)


def image(target: str) -> str:
    return f"localhost/mooring{'' if target == 'mooring' else f'-{target}'}:{VERSION}"


def command(target: str, *words: str, before: tuple[str, ...] = ()) -> list[str]:
    """The line that runs a target's image. before: further options of podman."""
    return [str(PODMAN), *CONFINED, *before, image(target), *words]


def said(*line: str) -> str:
    done = subprocess.run(line, check=False, capture_output=True, text=True, timeout=120)
    assert 0 == done.returncode, done.stderr[-2000:]
    return done.stdout


def inspected(name: str) -> Any:
    return json.loads(said(str(PODMAN), "image", "inspect", name))[0]


@each_row("target", TARGETS)
def test_a_program_starts_as_its_user(target: str) -> None:
    assert said(*command(target, "--version")).strip().endswith(VERSION)
    who = "import os; print(os.getuid(), os.getgid(), open('/proc/self/status').read())"
    shown = said(*command(target, "-c", who, before=("--entrypoint=python3",)))
    assert shown.startswith("0 0 " if target in ROOTS else "65532 65532 ")
    assert "CapEff:\t0000000000000000" in shown


@each_row("target", TARGETS)
def test_an_image_tells_where_it_comes_from(target: str) -> None:
    labels = inspected(image(target))["Labels"]
    told = {key.removeprefix("org.opencontainers.image."): value for key, value in labels.items()}
    assert (target, VERSION, "Apache-2.0") == (told["title"], told["version"], told["licenses"])
    assert re.fullmatch(r"[0-9a-f]{40}(-dirty)?", told["revision"])
    assert re.fullmatch(r"sha256:[0-9a-f]{64}", told["base.digest"])
    assert told["base.name"]


def test_an_image_has_what_runs_and_nothing_else() -> None:
    look = "import os; print(*(os.path.join(a, f) for a, _, fs in os.walk('/opt/mooring') for f in fs), sep='\\n')"
    files = said(*command("mooring", "-c", look, before=("--entrypoint=python3",))).split()
    assert len(files) > 500
    strange = [
        path for path in files if re.search(r"/(pip|setuptools|hatchling|wheel|tests?)(/|-|$)|\.lock$|\.whl$", path)
    ]
    assert [] == strange
    about = inspected(image("mooring"))
    base = inspected(about["Labels"]["org.opencontainers.image.base.name"])
    assert about["Size"] - base["Size"] < MB_MAX * 10**6


def test_all_images_share_all_but_what_they_start() -> None:
    layers = {target: inspected(image(target))["RootFS"]["Layers"] for target in TARGETS}
    assert 1 == len({tuple(each) for each in layers.values()})


class Swapped(StorageParts):
    """Parts whose sidecars can be taken over by those of the images, and back."""

    def run_ours(self, name: str) -> None:
        flags = [f"--kubeconfig={self.folder / 'kubeconfig-of-all'}", f"--csi-address={self.socket}", "-v=4", *ELECTION]
        words = command(name, *flags, before=(f"-v={self.folder}:{self.folder}",))
        self._programs[f"image-{name}"] = Program(words, self.folder / f"image-{name}.log")

    def end(self, name: str) -> None:
        program = self._programs.pop(name)
        program.assert_alive()
        program.stop()


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Swapped]:
    folder = tmp_path_factory.mktemp("parts")
    folder.chmod(0o755)  # the images' user goes through it
    with Swapped(folder) as parts:
        eventually(parts.socket.exists, WAIT_S, "the driver serves")
        parts.socket.chmod(0o777)
        config = folder / "kubeconfig-of-all"
        config.write_bytes((folder / "kubeconfig").read_bytes())
        config.chmod(0o644)
        try:
            yield parts
        finally:  # podman's own process may have been killed, and its container goes on
            left = said(str(PODMAN), "ps", "--quiet", f"--filter=label={_TESTED}").split()
            if left:
                said(str(PODMAN), "rm", "--force", "--time=0", *left)


def begin(story: Story) -> None:
    """Needs a provisioner and an attacher."""
    story.bound()
    story.attached()


def end(story: Story) -> None:
    story.delete_pod()
    story.gone()


def test_attacher_and_provisioner_take_over_from_go_and_give_back(parts: Swapped) -> None:
    """A volume that the Go ones have made and attached goes by ours, and the other way round."""
    by_go = Story(parts, "by-go")
    begin(by_go)
    names, go = ("csi-attacher", "csi-provisioner"), holders(parts)
    for name in names:
        parts.end(name)
        parts.run_ours(name)
    end(by_go)
    by_ours = Story(parts, "by-ours")
    begin(by_ours)
    ours = holders(parts)
    assert go.keys() <= ours.keys(), "beside those of Go, there is the provisioner's journal"
    assert 2 == len([lease for lease in go if go[lease] != ours[lease]])
    for name in names:
        parts.end(f"image-{name}")
        parts.run_sidecar(name)
    end(by_ours)
    parts.assert_alive()


def holders(parts: Swapped) -> dict[str, str]:
    """Who leads, by lease."""
    leases = parts.api.get("/apis/coordination.k8s.io/v1/namespaces/default/leases").ok()["items"]
    return {one["metadata"]["name"]: one["spec"]["holderIdentity"] for one in leases}


@contextlib.contextmanager
def running(folder: Path, target: str, *flags: str, at: Path) -> Iterator[Program]:
    """An image's program that has a folder, and ends well when it is told to."""
    program = Program(command(target, *flags, before=(f"-v={at}:{at}",)), folder / f"{target}.log")
    try:
        yield program
        program.assert_alive()
        assert program.stop() in (0, 143), program.log_tail()
    finally:
        program.kill()


def test_registrar_and_probe_stand_beside_a_driver(parts: Swapped, tmp_path: Path) -> None:
    socket, port = parts.socket, free_ports(1)[0]
    address = f"--csi-address={socket}"
    with running(tmp_path, "livenessprobe", address, f"--http-endpoint=127.0.0.1:{port}", at=parts.folder):

        def is_well() -> bool:
            with (
                contextlib.suppress(OSError),
                urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=5) as up,
            ):
                return bool(up.status == 200)
            return False

        eventually(is_well, WAIT_S, "the probe says that the driver is well")
    registrations = parts.folder / "plugins_registry"
    registrations.mkdir()
    flags = [address, f"--kubelet-registration-path={socket}", f"--plugin-registration-path={registrations}"]
    with running(tmp_path, "csi-node-driver-registrar", *flags, at=parts.folder):
        wanted = registrations / f"{parts.driver.name}-reg.sock"
        eventually(wanted.exists, WAIT_S, "the kubelet's door is there")
    assert not wanted.exists(), "it goes with the registrar"


def test_mooring_has_its_commands(parts: Swapped) -> None:
    life = Story(parts, "asked")
    begin(life)
    config = parts.folder / "kubeconfig-of-all"
    mount = (f"-v={parts.folder}:{parts.folder}",)
    assert "asked" in said(*command("mooring", "why", "pvc/asked", f"--kubeconfig={config}", before=mount))
    assert "asked" in said(*command("mooring", "timeline", "pvc/asked", f"--kubeconfig={config}", before=mount))
    address = f"--csi-address={parts.socket}"
    assert parts.driver.name in said(*command("mooring", "call", "GetPluginInfo", address, before=mount))
    end(life)
