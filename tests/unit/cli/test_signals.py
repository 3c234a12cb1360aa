"""Signals of a running sidecar, and the note that it leaves for the kubelet."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from mooring.cli import sidecar
from mooring.cli.process import Machine


class LifeOfEvents:
    """A life that ends when the test says so."""

    def __init__(self):
        self.told = asyncio.Event()
        self.over = asyncio.Event()

    @property
    def is_ending(self):
        return self.told.is_set()

    def end(self):
        self.told.set()

    async def run(self):
        await self.over.wait()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
async def test_SG_the_first_signal_lets_the_life_end(number, capsys):
    life = LifeOfEvents()
    async with asyncio.TaskGroup() as group:
        running = group.create_task(sidecar._until_signalled(life, Machine()))
        await asyncio.sleep(0)
        assert not life.is_ending
        os.kill(os.getpid(), number)
        await asyncio.wait_for(life.told.wait(), 5)
        assert not running.done()
        life.over.set()
    assert f'"Received a signal, ending" signal="{number.name}"' in capsys.readouterr().err


async def test_SG_the_second_signal_ends_the_process_at_once():
    life, codes, gone = LifeOfEvents(), [], asyncio.Event()

    def exit_now(code):
        codes.append(code)
        gone.set()

    async with asyncio.TaskGroup() as group:
        group.create_task(sidecar._until_signalled(life, Machine(exit_now=exit_now)))
        await asyncio.sleep(0)
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.wait_for(life.told.wait(), 5)
        assert [] == codes
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.wait_for(gone.wait(), 5)
        assert [1] == codes
        life.over.set()


def test_CO06_the_kubelet_gets_a_note(tmp_path):
    log = tmp_path / "termination-log"
    sidecar._note_for_the_kubelet(Machine(termination_log=log))
    assert "Lost connection to CSI driver, exiting" == log.read_text()
    assert 0o644 == log.stat().st_mode & 0o777


def test_CO06_a_note_that_cannot_be_left_is_only_logged(tmp_path, capsys):
    sidecar._note_for_the_kubelet(Machine(termination_log=tmp_path / "none" / "log"))
    assert "Could not write the termination log" in capsys.readouterr().err
