"""`mooring dev` as a newcomer meets it: on a terminal of 80 columns, and with kubectl."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from mooring.api.core import NAMESPACES, PERSISTENT_VOLUME_CLAIMS, SECRETS
from mooring.api.storage import STORAGE_CLASSES
from mooring.base.clock import LoopClock
from mooring.base.randomness import Random
from mooring.dev.polling import until
from mooring.dev.seed_objects import claim
from mooring.kube.client import kubeconfig
from mooring.kube.client.http import HttpCluster
from tests.support.mooring_dev import MOORING, Screen, dev, needs_mounts
from tests.support.real import binary
from tests.support.waiting import eventually

pytestmark = pytest.mark.slow

PIPE_BYTES = 1 << 16
CLAIMS = 200
EXPORT = r"^export KUBECONFIG=\S+/kubeconfig$"


@pytest.fixture
def screen() -> Iterator[Screen]:
    made = Screen(*MOORING, "dev", "--plain")
    try:
        yield made
    finally:
        made.close()


def test_what_to_type_stands_last_and_comes_again_on_enter(screen: Screen) -> None:
    assert screen.wrote(EXPORT), screen.lines
    assert not screen.wrote(".", times=10_000, timeout_s=0.5), "nothing comes after it"
    shown = [line for line in screen.lines if line.strip()]
    assert re.search(EXPORT, shown[-1])
    assert "Ctrl-C ends it, Enter shows this again. In another terminal:" == shown[-2]
    ready = next(number for number, line in enumerate(shown) if line.startswith("Ready."))
    assert 12 > len(shown) - ready, "less than half a screen"
    long = [line for line in screen.lines if len(line) > 80 and len(line.split()) > 1]  # (a word stays whole)
    assert [] == [line for line in long if not re.search(rf"csi\.sock|/\S+/pods|run/|{EXPORT}", line)]
    assert "Not here: containers." in shown
    assert 1 == len(
        [
            line
            for line in shown
            if re.fullmatch(r"A node dies, and comes back: .*mooring dev kill-node n3, revive-node n3", line)
        ]
    )
    screen.type("\n")
    assert screen.wrote(EXPORT, times=2), screen.lines
    screen.type("\x03")
    assert screen.wrote("ended in good order"), screen.lines
    assert 0 == screen.process.wait(20)


def test_an_end_of_input_is_no_end(screen: Screen) -> None:
    assert screen.wrote(EXPORT), screen.lines
    screen.type("\x04\n")
    assert not screen.wrote(EXPORT, times=2, timeout_s=1.0)
    assert screen.process.poll() is None
    screen.type("\x03")
    assert 0 == screen.process.wait(20)


def test_without_a_keyboard_none_is_promised(tmp_path: Path) -> None:
    with dev(tmp_path) as (program, _):
        assert "Ctrl-C ends it. In another terminal:" in program.output()


def test_its_examples_are_a_script_that_the_real_kubectl_runs_to_its_end(tmp_path: Path) -> None:
    state = tmp_path / "state"
    needs_mounts()
    flags = [f"--state={state}"]
    script = subprocess.run(
        [*MOORING, "dev", "--examples", *flags], capture_output=True, text=True, timeout=30, check=True
    ).stdout
    assert f"export KUBECONFIG={state}/kubeconfig\n" == script[: script.index("\n") + 1]
    assert [] == [line for line in script.splitlines()[1:] if len(line) >= 80]
    environment = {**os.environ, "PATH": f"{binary('kubectl').parent}:{os.environ['PATH']}", "HOME": str(tmp_path)}
    with dev(tmp_path, *flags) as (program, _):
        assert f"\nClaims and a pod to paste: mooring dev --examples {' '.join(flags)}\n" in program.output()
        done = subprocess.run(
            ["sh", "-eu"], input=script, env=environment, capture_output=True, text=True, timeout=60, check=False
        )
        assert 0 == done.returncode, done.stdout + done.stderr
        volumes = ("CreateVolume", "ControllerPublishVolume", "ControllerUnpublishVolume", "DeleteVolume")
        for call in (*volumes, "ControllerExpandVolume", "ControllerModifyVolume", "CreateSnapshot", "DeleteSnapshot"):
            assert re.search(rf"CSI → driver +{call} ", program.output())
        for call in ("NodeStageVolume", "NodePublishVolume", "NodeUnpublishVolume", "NodeUnstageVolume"):
            assert 2 == len(re.findall(rf"CSI → n\d +{call} ", program.output()))
        assert 1 == len(re.findall(r"CSI → n\d +NodeExpandVolume ", program.output()))
    assert "pod/my-pod condition met" in done.stdout
    assert 'pod "my-waiting-pod" deleted' in done.stdout


def unread(tmp_path: Path) -> tuple[subprocess.Popen[bytes], int]:
    """`mooring dev`, and the end of the pipe that it writes to."""
    reader, writer = os.pipe()
    with (tmp_path / "stderr").open("wb") as log, os.fdopen(writer, "wb") as out:
        environment = {**os.environ, "TMPDIR": str(tmp_path)}
        return subprocess.Popen([*MOORING, "dev", "--nodes=1"], stdout=out, stderr=log, env=environment), reader


@pytest.mark.long
async def test_a_reader_that_stops_reading_holds_nothing_else_up(tmp_path: Path) -> None:
    """As a pager does after its first page; the end waits for it no longer either."""
    program, reader = unread(tmp_path)
    try:
        shown = b""
        while not (found := re.search(rb"export KUBECONFIG=(.*)\n", shown)):
            shown += os.read(reader, 4096)
        config = kubeconfig.load(found[1].decode(), {})
        names = [f"claim-{number}" for number in range(CLAIMS)]
        async with (
            asyncio.timeout(60),
            HttpCluster(config, clock=LoopClock(), randomness=Random(1), user_agent="tests") as cluster,
        ):
            for name in names:
                await cluster.create(PERSISTENT_VOLUME_CLAIMS.whole(), claim(name, "hostpath"), "default")
            for name in names:
                await until(
                    cluster, PERSISTENT_VOLUME_CLAIMS, name, lambda one: one is not None and one.status.phase == "Bound"
                )
        program.send_signal(signal.SIGINT)
        assert 0 == await asyncio.to_thread(program.wait, 30)
        while more := os.read(reader, 1 << 16):
            shown += more
        assert PIPE_BYTES <= len(shown), "so much that nobody could write it without a reader"
    finally:
        program.kill()
        program.wait()
        os.close(reader)


SAMPLE_CLASS = {
    "metadata": {"name": "fast-storage"},
    "parameters": {
        "type": "pd-ssd",
        "csiProvisionerSecretName": "mysecret",
        "csiProvisionerSecretNamespace": "mynamespace",
    },
    "reclaimPolicy": "Delete",
    "volumeBindingMode": "Immediate",
}
"""As the CSI design document has it, but for the name of the driver."""


async def test_27a3_the_design_documents_class_makes_a_volume_with_its_secret(tmp_path: Path) -> None:
    with dev(tmp_path, "--nodes=1") as (program, path):
        config = kubeconfig.load(str(path), {})
        async with (
            asyncio.timeout(60),
            HttpCluster(config, clock=LoopClock(), randomness=Random(1), user_agent="tests") as cluster,
        ):
            provisioner = (await cluster.get(STORAGE_CLASSES.whole(), "hostpath"))["provisioner"]
            await cluster.create(STORAGE_CLASSES.whole(), {**SAMPLE_CLASS, "provisioner": provisioner})
            await cluster.create(PERSISTENT_VOLUME_CLAIMS.whole(), claim("mine", "fast-storage"), "default")
            told = r"ProvisioningFailed.*mysecret|secrets? \"mysecret\" not found"
            await asyncio.to_thread(
                eventually, lambda: re.search(told, program.output_alive()), 20, "the secret is missed"
            )
            await cluster.create(NAMESPACES.whole(), {"metadata": {"name": "mynamespace"}})
            secret = {"metadata": {"name": "mysecret"}, "stringData": {"password": "hidden-from-all"}}
            await cluster.create(SECRETS.whole(), secret, "mynamespace")
            await until(
                cluster, PERSISTENT_VOLUME_CLAIMS, "mine", lambda one: one is not None and one.status.phase == "Bound"
            )
        assert "hidden-from-all" not in program.output()
        ignored = [line for line in program.output().splitlines() if "is not known, and ignored" in line]
        assert [True] == ["type" in line and "csiProvisionerSecret" not in line for line in ignored], (
            "acted on, so not ignored"
        )
