"""The control plane of a run belongs to the process that controls its workers."""

from __future__ import annotations

import socket
import subprocess
from pathlib import Path

import pytest

from tests.support.control_plane import ControlPlane, PortTaken, shared_control_plane
from tests.support.programs import free_ports
from tests.support.waiting import eventually

pytestmark = [pytest.mark.real, pytest.mark.slow]


def test_it_is_one_for_all_and_ends_with_its_owner(tmp_path: Path) -> None:
    owner = subprocess.Popen(["sleep", "600"])
    try:
        plane = shared_control_plane(tmp_path, owner.pid)
        assert plane.is_ready()
        assert plane.server == shared_control_plane(tmp_path, owner.pid).server
    finally:
        owner.kill()
        owner.wait()
    eventually(lambda: not plane.folder.exists(), 20, "its folder goes with it")
    assert not plane.is_ready()


def test_a_port_that_was_taken_meanwhile_is_drawn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[int] = []
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = other.getsockname()[1]

        def ports(count: int) -> list[int]:
            drawn.append(count)
            return [taken, *free_ports(count - 1)] if len(drawn) == 1 else free_ports(count)

        monkeypatch.setattr("tests.support.control_plane.free_ports", ports)
        ControlPlane.start().stop()
        assert [3, 3] == drawn

        monkeypatch.setattr("tests.support.control_plane.free_ports", lambda count: [taken, *free_ports(count - 1)])
        with pytest.raises(PortTaken):
            ControlPlane.start()
