"""Signals of a running sidecar, and the note that it leaves for the kubelet."""

from __future__ import annotations

import asyncio
import os
import signal

from mooring.base.clock import LoopClock
from mooring.base.metrics import Metrics
from mooring.base.randomness import Random
from mooring.cli import sidecar
from mooring.cli.life import Life
from mooring.cli.process import Machine
from mooring.csi.errors import DriverError
from mooring.csi.session import DriverLost
from mooring.wire.grpc.codes import Code
from tests.support.rows import each_row


class LifeOfEvents(Life):
    """A life that ends when the test says so."""

    def __init__(self, machine=None):
        super().__init__(
            "a-life", None, machine or Machine(), clock=LoopClock(), randomness=Random(), metrics=Metrics()
        )
        self.told = self._stop_requested
        self.over = asyncio.Event()

    def _connect(self):
        raise NotImplementedError

    async def _begin(self, runtime, stack):
        raise NotImplementedError

    async def run(self):
        await self.over.wait()


@each_row("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
async def test_SG_the_first_signal_lets_the_life_end(number, capsys):
    life, before = LifeOfEvents(), signal.getsignal(number)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(life.until_signalled())
        await asyncio.sleep(0)
        assert not life.is_ending
        os.kill(os.getpid(), number)
        await asyncio.wait_for(life.told.wait(), 5)
        assert not running.done()
        life.over.set()
    assert f'"Received a signal, ending" signal="{number.name}"' in capsys.readouterr().err
    assert signal.getsignal(number) is before


async def test_SG_the_second_signal_ends_the_process_at_once():
    codes, gone = [], asyncio.Event()

    def exit_now(code):
        codes.append(code)
        gone.set()

    life = LifeOfEvents(Machine(exit_now=exit_now))

    async with asyncio.TaskGroup() as group:
        group.create_task(life.until_signalled())
        await asyncio.sleep(0)
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.wait_for(life.told.wait(), 5)
        assert [] == codes
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.wait_for(gone.wait(), 5)
        assert [1] == codes
        life.over.set()


async def ends(error=None):
    if error is not None:
        raise error


def test_an_end_in_good_order_is_exit_code_0(tmp_path):
    assert 0 == sidecar.exit_code(ends(), Machine(termination_log=tmp_path / "log"))
    assert not (tmp_path / "log").exists()


def test_a_driver_that_refuses_is_exit_code_1(tmp_path, capsys):
    refusal = DriverError(Code.PERMISSION_DENIED, "not you")
    assert 1 == sidecar.exit_code(ends(refusal), Machine(termination_log=tmp_path / "log"))
    assert "rpc error: code = PermissionDenied desc = not you" in capsys.readouterr().err
    assert not (tmp_path / "log").exists()


def test_CO06_a_lost_driver_is_exit_code_1_and_the_kubelet_gets_a_note(tmp_path, capsys):
    log = tmp_path / "termination-log"
    log.touch(0o600)
    assert 1 == sidecar.exit_code(ends(DriverLost()), Machine(termination_log=log))
    assert "Lost connection to CSI driver, exiting" in capsys.readouterr().err
    assert "Lost connection to CSI driver, exiting" == log.read_text()
    assert 0o644 == log.stat().st_mode & 0o777


def test_CO06_a_note_that_cannot_be_left_is_only_logged(tmp_path, capsys):
    assert 1 == sidecar.exit_code(ends(DriverLost()), Machine(termination_log=tmp_path / "none" / "log"))
    assert "Could not write the termination log" in capsys.readouterr().err
