"""Enter on a terminal, and where nobody can press it."""

from __future__ import annotations

import asyncio
import io
import os
import pty
import select
from collections.abc import Iterator
from typing import TextIO

import pytest

from mooring.cli.dev import on_enter
from tests.support.rows import each_row


@pytest.fixture
def keyboard() -> Iterator[tuple[int, TextIO]]:
    """Where keys are pressed, and the terminal that has them."""
    here, there = pty.openpty()
    with open(there, closefd=True) as terminal:
        yield here, terminal
    os.close(here)


async def arrived(terminal: TextIO) -> None:
    """What was typed is there, and the loop has looked."""
    assert select.select([terminal], [], [], 5)[0]
    for _ in range(3):
        await asyncio.sleep(0)


async def test_each_enter_counts(keyboard: tuple[int, TextIO]) -> None:
    (here, terminal), pressed = keyboard, asyncio.Queue[bool]()
    with on_enter(terminal, lambda: pressed.put_nowait(True)) as can_enter:
        assert can_enter
        for keys in (b"\n", b"words\n"):
            os.write(here, keys)
            assert await asyncio.wait_for(pressed.get(), 5)
    os.write(here, b"\n")
    await arrived(terminal)
    assert pressed.empty(), "after the block nobody listens"


async def test_after_the_end_of_input_nothing_is_read(keyboard: tuple[int, TextIO]) -> None:
    (here, terminal), pressed = keyboard, list[bool]()
    with on_enter(terminal, lambda: pressed.append(True)):
        os.write(here, b"\x04")
        await arrived(terminal)
        os.write(here, b"\n")
        await arrived(terminal)
    assert [] == pressed


@each_row("stream", [None, io.StringIO()])
async def test_without_a_terminal_there_is_no_enter(stream: TextIO | None) -> None:
    with on_enter(stream, lambda: None) as can_enter:
        assert not can_enter


async def test_in_the_background_nothing_is_read(keyboard: tuple[int, TextIO], monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel would stop the process: `mooring dev &`, and Ctrl-Z with bg."""
    (here, terminal), pressed = keyboard, list[bool]()
    front = os.getpgrp()
    monkeypatch.setattr(os, "tcgetpgrp", lambda _: front)
    with on_enter(terminal, lambda: pressed.append(True)) as can_enter:
        assert can_enter
        front += 1
        os.write(here, b"\n")
        await arrived(terminal)
        with on_enter(terminal, lambda: None) as can_enter_later:
            assert not can_enter_later
    assert [] == pressed
    assert "\n" == terminal.readline(), "the shell gets it"
