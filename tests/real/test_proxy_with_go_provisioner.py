"""Item 30.4: the Go csi-provisioner and the reference driver with `mooring proxy` between them: every kind of fault is
seen to happen.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any, Self

import pytest

from mooring.driver.hostpath.statefile import read_state
from tests.support import folder_driver
from tests.support.builders import a_claim, a_class
from tests.support.paths import PVCS, PVS, STORAGE_CLASSES
from tests.support.programs import Program
from tests.support.storage_parts import StorageParts
from tests.support.waiting import eventually

pytestmark = [pytest.mark.real, pytest.mark.slow]

NAME = folder_driver.FolderDriver.name
WAIT_S = 60.0

SCRIPT = """
seed: 1
faults:
- {do: delay, for: 1s, rpc: CreateVolume, request: {parameters.fault: delay}, nth: 1}
- {do: drop, rpc: CreateVolume, request: {parameters.fault: drop}, nth: 1}
- {do: fail, code: Unavailable, when: after, rpc: CreateVolume, request: {parameters.fault: fail}, nth: 1}
- {do: fail, code: Unavailable, rpc: CreateVolume, request: {parameters.fault: refuse}, nth: 1}
- {do: twice, at_once: true, rpc: CreateVolume, request: {parameters.fault: twice}, nth: 1}
- {do: hang, rpc: CreateVolume, request: {parameters.fault: hang}, nth: 1}
- {do: cut, when: after, rpc: CreateVolume, request: {parameters.fault: cut}, nth: 1}
"""


class Faulty(StorageParts):
    """The API server, the reference driver, the proxy and csi-provisioner."""

    def __enter__(self) -> Self:
        self.start_server()
        self._make_cluster()
        driver, proxy = self.folder / "driver.sock", self.folder / "csi.sock"
        (self.folder / "faults.yaml").write_text(SCRIPT)
        mooring = [sys.executable, "-m", "mooring.cli.mooring"]
        flags = [
            f"--endpoint=unix://{driver}",
            f"--state={self.folder / 'hostpath'}",
            "--node-id=n1",
            f"--driver-name={NAME}",
            "--mounts=link",
        ]
        self._programs["driver"] = Program([*mooring, "driver", "hostpath", *flags], self.folder / "driver.log")
        # The Go csi-provisioner ends when its first Probe fails.
        eventually(lambda: '"Serving"' in self._programs["driver"].output_alive(), WAIT_S, "the driver serves")
        flags = [f"--listen=unix://{proxy}", f"--to=unix://{driver}", f"--faults={self.folder / 'faults.yaml'}"]
        self.proxy = Program(
            [*mooring, "proxy", *flags, f"--record={self.folder / 'record'}"], self.folder / "proxy.log"
        )
        self._programs["proxy"] = self.proxy
        eventually(lambda: "Passing calls" in self.proxy.output_alive(), WAIT_S, "the proxy serves")
        self.start_provisioner()
        return self

    def start_provisioner(self) -> None:
        socket = self.folder / "csi.sock"
        self._run(
            "csi-provisioner",
            f"--csi-address={socket}",
            "--timeout=3s",
            "--retry-interval-start=100ms",
            "--retry-interval-max=1s",
        )

    @property
    def provisioner(self) -> Program:
        return self._programs["csi-provisioner"]

    def claim(self, fault: str) -> None:
        """A claim whose volume's class has this word as its parameter."""
        self.api.post(STORAGE_CLASSES, a_class(fault, provisioner=NAME, parameters={"fault": fault})).ok(201)
        noted = {"volume.kubernetes.io/storage-provisioner": NAME}
        self.api.post(PVCS, a_claim(fault, sc=fault, annotations=noted)).ok(201)

    def volume_of(self, claim: str) -> str:
        """The handle of the claim's PersistentVolume, "" while there is none."""
        found = [pv["spec"] for pv in self.api.get(PVS).ok()["items"] if pv["spec"]["claimRef"]["name"] == claim]
        return str(found[0]["csi"]["volumeHandle"]) if found else ""

    def calls(self, fault: str) -> list[dict[str, Any]]:
        """The CreateVolumes for that claim, as the proxy recorded them."""
        lines = map(json.loads, (self.folder / "record").read_text().splitlines())
        found = [line for line in lines if line.get("request", {}).get("parameters", {}).get("fault") == fault]
        return sorted(found, key=lambda line: int(line["call"]))


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Faulty]:
    made = Faulty(tmp_path_factory.mktemp("proxy"))
    try:
        with made as parts:
            yield parts
    finally:
        made.__exit__()


def provisioned(parts: Faulty, fault: str) -> list[dict[str, Any]]:
    parts.claim(fault)
    handle = eventually(lambda: parts.volume_of(fault), WAIT_S, f"a volume in spite of {fault}: {parts.logs()}")
    calls = parts.calls(fault)
    assert {handle} == {call["answer"]["volume"]["volume_id"] for call in calls if "answer" in call}, "one volume"
    return calls


def survived_a_cut(parts: Faulty) -> list[dict[str, Any]]:
    """The calls for the claim whose first answer ends the connection, and with it the Go provisioner."""
    parts.claim("cut")
    parts.provisioner.wait_exit(WAIT_S)
    assert not parts.volume_of("cut")
    parts.start_provisioner()
    handle = eventually(lambda: parts.volume_of("cut"), WAIT_S, f"a volume after the cut: {parts.logs()}")
    calls = parts.calls("cut")
    assert {handle} == {call["answer"]["volume"]["volume_id"] for call in calls}
    return calls


def test_a_delay(parts: Faulty) -> None:
    calls = provisioned(parts, "delay")
    assert ["a delay of 1s before the effect"] == [call["fault"].partition(" (")[0] for call in calls]


@pytest.mark.parametrize("fault", ["drop", "fail"])
def test_an_answer_that_is_lost_leads_to_the_same_volume(parts: Faulty, fault: str) -> None:
    first, *again = provisioned(parts, fault)
    assert first["fault"]
    assert first["reached"]
    assert again
    assert all(call["reached"] and "fault" not in call for call in again)


@pytest.mark.parametrize("fault", ["refuse", "hang"])
def test_a_call_that_does_not_reach_the_driver_is_made_again(parts: Faulty, fault: str) -> None:
    first, *again = provisioned(parts, fault)
    assert first["fault"]
    assert not first["reached"]
    assert [True] == [call["reached"] for call in again]


def test_a_call_that_comes_twice(parts: Faulty) -> None:
    first, second, *again = provisioned(parts, "twice")
    assert first["fault"] == second["fault"]
    assert all("fault" not in call for call in again), "after Aborted, which one of the two may have got"
    assert "sent twice, at once" in first["fault"]


def test_a_connection_that_is_cut_ends_the_provisioner_and_the_next_one_finds_the_volume(parts: Faulty) -> None:
    first, *again = survived_a_cut(parts)
    assert "the connection is cut after the effect" in first["fault"]
    assert again


def test_at_the_end_each_fault_has_happened_and_there_is_one_volume_for_each_claim(parts: Faulty) -> None:
    for fault in (
        "delay",
        "drop",
        "fail",
        "refuse",
        "hang",
        "twice",
    ):  # on a worker of its own this test finds none of them
        if not parts.calls(fault):
            provisioned(parts, fault)
    if not parts.calls("cut"):
        survived_a_cut(parts)
    assert 0 == parts.proxy.stop(20)
    ending = [line for line in parts.proxy.output().splitlines() if line.startswith(str(parts.folder / "faults.yaml:"))]
    assert 7 == len(ending)
    assert all(line.endswith(": once") for line in ending), ending
    assert len(parts.api.get(PVCS).ok()["items"]) == len(read_state(parts.folder / "hostpath").volumes)
