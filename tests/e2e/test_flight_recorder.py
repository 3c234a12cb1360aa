"""The flight recorder of a real program: its file on SIGUSR1, and the replay of that file."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mooring.api.core import PERSISTENT_VOLUME_CLAIMS
from mooring.base.clock import LoopClock
from mooring.base.randomness import Random
from mooring.kube.client import kubeconfig
from mooring.kube.client.http import HttpCluster
from mooring.wire.grpc.codes import Code
from tests.e2e.processes import Attacher, ProcessTarget, embedded_server, on_embedded, on_real
from tests.support.builders import a_claim, a_volume
from tests.support.cluster_world import ClusterUser
from tests.support.programs import Program
from tests.support.scripted_driver import PUBLISH, Fail
from tests.support.waiting import eventually

pytestmark = pytest.mark.slow

MOORING = Path(sys.executable).with_name("mooring")
SECRET = "c8OrY3JldA=="
PAIRS = 5


async def recorded(attacher: Attacher, count: int = 1) -> Path:
    """The file of the record that SIGUSR1 asks for."""
    attacher.program.send(signal.SIGUSR1)
    line = await attacher.said("Wrote the flight record", f"-{count}.gz")
    return Path(line.split('file="')[1].split('"')[0])


def replay(path: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [MOORING, "replay", str(path), *flags], capture_output=True, text=True, timeout=60, check=False
    )


async def some_lives(target: ProcessTarget, flags: tuple[str, ...], folder: Path) -> Path:
    """Attaches and detaches some volumes, with failures; gives the record."""
    ref = {"name": await target.secret({"password": SECRET}), "namespace": "default"}
    places = [
        (await target.volume(f"pv{number}", controllerPublishSecretRef=ref), await target.node(f"n{number}"))
        for number in range(PAIRS)
    ]
    target.driver.script(PUBLISH, Fail(Code.INTERNAL, "not yet"))
    async with target.attaching("--retry-interval-start=100ms", f"--flight-recorder-dir={folder}", *flags) as attacher:
        wanted = await asyncio.gather(*(target.want(pv, node) for pv, node in places))
        await asyncio.gather(*map(target.attached, wanted))
        await asyncio.gather(*map(target.detached, wanted[:3]))
        return await recorded(attacher)


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]


def check(path: Path) -> None:
    assert 0o600 == stat.S_IMODE(path.stat().st_mode)
    _, *lines = lines_of(path)
    told = [line["shown"] for line in lines if line["kind"] == "decided"]
    found = replay(path)
    assert (0, f"{len(told)} decisions, the same as recorded.") == (found.returncode, found.stdout.splitlines()[-1]), (
        found.stdout + found.stderr
    )
    again = [json.loads(line)["shown"] for line in replay(path, "--output=json").stdout.splitlines()]
    assert told == again
    assert len(told) > 3 * PAIRS


async def test_a_record_of_a_run_is_replayed_to_the_same_decisions(tmp_path: Path) -> None:
    async with on_embedded(tmp_path / "server") as target:
        check(await some_lives(target, (), tmp_path))


@pytest.mark.real
async def test_so_is_that_of_a_run_on_a_real_api_server(tmp_path: Path, control_plane) -> None:
    async with on_real(tmp_path, control_plane) as target:
        check(await some_lives(target, (), tmp_path))


async def test_mooring_record_asks_a_program_for_its_file(tmp_path: Path) -> None:
    async with (
        on_embedded(tmp_path / "server") as target,
        target.attaching(f"--flight-recorder-dir={tmp_path}") as attacher,
    ):
        await target.attached(await target.want(await target.volume(), await target.node()))
        asked = await asyncio.to_thread(record, str(attacher.program.pid))
        assert (0, "") == (asked.returncode, asked.stderr)
        assert 0 == replay(Path(asked.stdout.strip())).returncode
        piped = await asyncio.to_thread(record, str(attacher.program.pid), "--stdout", text=False)
        assert gzip.decompress(piped.stdout).startswith(b'{"format":1,"program":"csi-attacher"')


async def test_a_timeline_tells_what_a_record_knows(tmp_path: Path) -> None:
    async with (
        on_embedded(tmp_path / "server") as target,
        target.attaching(f"--flight-recorder-dir={tmp_path}") as attacher,
    ):
        target.driver.script(PUBLISH, Fail(Code.INTERNAL, "not yet"))
        attachment = await target.want(await target.volume(), await target.node())
        await target.attached(attachment)
        path, words = await recorded(attacher), ("timeline", f"va/{attachment}", f"--kubeconfig={target.config}")
        told = await asyncio.to_thread(run, *words, f"--record={path}", "--output=json")
        moments = [one["what"] for one in json.loads(told.stdout)["moments"] if one["source"] == "record"]
        assert "heard from the driver that ControllerPublishVolume failed: Internal: not yet" in moments
        assert "heard from the driver that ControllerPublishVolume is done" in moments
        assert any(one.startswith("decided: ") for one in moments)
        alone = await asyncio.to_thread(run, *words)
        assert (0, False) == (alone.returncode, "decided: " in alone.stdout)
        refused = await asyncio.to_thread(run, *words, "--record=/dev/null")
        assert (2, True) == (refused.returncode, "this is no record" in refused.stderr)


def test_mooring_record_ends_no_process_that_would_not_catch_its_signal() -> None:
    other = subprocess.Popen(["sleep", "60"])
    try:
        refused = record(str(other.pid))
        assert (1, None) == (refused.returncode, other.poll())
        assert "keeps no flight record" in refused.stderr
    finally:
        other.kill()
        other.wait()


async def test_without_the_recorder_a_signal_is_only_told(tmp_path: Path) -> None:
    flags = f"--flight-recorder-dir={tmp_path}", "--flight-recorder=false"
    async with on_embedded(tmp_path / "server") as target, target.attaching(*flags) as attacher:
        await target.attached(await target.want(await target.volume(), await target.node()))
        attacher.program.send(signal.SIGUSR1)
        await attacher.said("There is no flight record")
        assert [] == [name for name in os.listdir(tmp_path) if name.startswith("mooring-flight-")]


async def test_controllers_with_a_lease_each_keep_no_record_and_are_not_asked_for_one(tmp_path: Path) -> None:
    async with embedded_server(tmp_path) as config:
        log, election = (
            tmp_path / "log",
            ("--leader-election", "--leader-election-namespace=default", "--leader-election-lease-each"),
        )
        words = [MOORING, "controller", "--enable=attachdetach,binder", f"--kubeconfig={config}", *election]
        program = Program(words, log, {**os.environ, "TMPDIR": str(tmp_path)})
        try:
            await asyncio.to_thread(eventually, lambda: "Starting" in log.read_text() or None, 30.0, "the work")
            asked = await asyncio.to_thread(record, str(program.pid))
            assert (1, True) == (asked.returncode, "--leader-election-lease-each can't be replayed" in asked.stderr)
            program.send(signal.SIGUSR1)
            told = await asyncio.to_thread(wait_for_line, log, "There is no flight record")
            assert "several works with a Lease each have no recorder" in told
            assert 0 == await asyncio.to_thread(program.stop)
        finally:
            program.kill()


async def test_a_node_agent_keeps_no_record_and_is_not_asked_for_one(tmp_path: Path) -> None:
    async with embedded_server(tmp_path) as config:
        log = tmp_path / "agent.log"
        words = [MOORING, "node-agent", f"--kubeconfig={config}", "--node-name=n1", f"--root-dir={tmp_path / 'root'}"]
        agent = Program(words, log, {**os.environ, "TMPDIR": str(tmp_path)})
        try:
            await asyncio.to_thread(eventually, lambda: "Starting" in log.read_text() or None, 30.0, "the agent's work")
            asked = await asyncio.to_thread(record, str(agent.pid))
            assert 1 == asked.returncode
            assert f"process {agent.pid} is mooring node-agent, which keeps no flight record" in asked.stderr
            agent.send(signal.SIGUSR1)
            await asyncio.to_thread(
                eventually, lambda: "There is no flight record" in log.read_text() or None, 30.0, "its word"
            )
            assert [] == [name for name in os.listdir(tmp_path) if name.startswith("mooring-flight-")]
            assert 0 == agent.stop()
        finally:
            agent.kill()


def record(*words: str, text: bool = True) -> subprocess.CompletedProcess[Any]:
    return run("record", *words, text=text)


def run(*words: str, text: bool = True) -> subprocess.CompletedProcess[Any]:
    return subprocess.run([MOORING, *words], capture_output=True, text=text, timeout=60, check=False)


async def test_a_record_of_the_binder_is_replayed_to_the_same_decisions(tmp_path: Path) -> None:
    async with embedded_server(tmp_path) as config:
        client = HttpCluster(
            kubeconfig.load(str(config), {}), clock=LoopClock(), randomness=Random(), user_agent="tests"
        )
        words = [MOORING, "binder", f"--kubeconfig={config}", f"--flight-recorder-dir={tmp_path}"]
        program, log = Program(words, tmp_path / "binder.log"), tmp_path / "binder.log"
        try:
            async with client:
                users = ClusterUser(client, wait_s=30.0)
                for number in range(4):
                    await users.create(a_volume(f"pv{number}", sc=""))
                    await users.create(a_claim(f"claim{number}", sc="", volume=f"pv{number}"))
                for number in range(4):
                    await users.shown(
                        PERSISTENT_VOLUME_CLAIMS,
                        f"claim{number}",
                        lambda found: found["status"].get("phase") == "Bound",
                    )
            program.send(signal.SIGUSR1)
            line = await asyncio.to_thread(wait_for_line, log, "Wrote the flight record")
        finally:
            program.stop()
    path = Path(line.split('file="')[1].split('"')[0])
    told = [one["shown"] for one in lines_of(path)[1:] if one["kind"] == "decided"]
    found = replay(path)
    assert (0, f"{len(told)} decisions, the same as recorded.") == (found.returncode, found.stdout.splitlines()[-1]), (
        found.stdout
    )
    assert len(told) > 8


def wait_for_line(log: Path, text: str) -> str:
    """The line of a log that has the text, once it is there."""
    return eventually(lambda: next((line for line in log.read_text().splitlines() if text in line), None), 30.0, text)
