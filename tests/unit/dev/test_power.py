"""The switch of the nodes' power, as whoever asks for it over the socket finds it."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mooring.base.errors import ConfigError
from mooring.cli import dev_power
from mooring.dev import power
from mooring.dev.power import OFF, ON, answering, ask, is_answering, socket_in
from tests.support.rows import each_row

MISREAD = 'this takes a line of JSON, as {"turn": "off", "node": "n2"}'


async def off(name: str) -> str:
    return f"{name} is off"


async def on(name: str) -> str:
    raise ConfigError(f"there is no node {name}")


@contextlib.asynccontextmanager
async def a_switch(folder: Path) -> AsyncIterator[Path]:
    (folder / "run").mkdir(exist_ok=True)
    async with answering(folder, {OFF: off, ON: on}):
        yield folder


async def said(folder: Path, line: bytes) -> bytes:
    reader, writer = await asyncio.open_unix_connection(str(socket_in(folder)))
    writer.write(line)
    writer.write_eof()
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    return answer


async def test_nodes_are_turned_for_whoever_asks(tmp_path: Path) -> None:
    async with a_switch(tmp_path):
        assert "n2 is off" == await asyncio.to_thread(ask, tmp_path, OFF, "n2")
        with pytest.raises(ConfigError, match=r"^there is no node n2$"):
            await asyncio.to_thread(ask, tmp_path, ON, "n2")
        assert await asyncio.to_thread(is_answering, tmp_path)


async def test_only_its_owner_may_ask(tmp_path: Path) -> None:
    async with a_switch(tmp_path):
        assert 0o600 == stat.S_IMODE(socket_in(tmp_path).stat().st_mode)


async def test_nothing_is_left_of_it(tmp_path: Path) -> None:
    async with a_switch(tmp_path):
        pass
    assert not socket_in(tmp_path).exists()
    assert not is_answering(tmp_path)
    with pytest.raises(ConfigError, match=r"^no mooring dev runs on "):
        ask(tmp_path, OFF, "n1")


@each_row(
    "line",
    [
        b"",
        b"\n",
        b"off n2\n",
        b"[]\n",
        b'{"turn": "up", "node": "n2"}\n',
        b'{"turn": "off"}\n',
        b'{"turn": [], "node": 1}\n',
        b"\xff\n",
        b"x" * 9999 + b"\n",
    ],
)
async def test_what_is_no_question_is_answered_all_the_same(tmp_path: Path, line: bytes) -> None:
    async with a_switch(tmp_path):
        assert MISREAD in (await said(tmp_path, line)).decode().replace('\\"', '"')
        assert "n2 is off" == await asyncio.to_thread(ask, tmp_path, OFF, "n2"), "and the next one is served"


async def test_who_says_nothing_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(power, "_READ_S_MAX", 0.05)
    async with a_switch(tmp_path):
        reader, writer = await asyncio.open_unix_connection(str(socket_in(tmp_path)))
        assert b"JSON" in await reader.read()
        writer.close()
        await writer.wait_closed()


async def test_a_socket_that_was_left_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(socket_in(tmp_path)))
    assert not is_answering(tmp_path)
    async with a_switch(tmp_path):
        assert "n1 is off" == await asyncio.to_thread(ask, tmp_path, OFF, "n1")


async def test_an_end_in_the_midst_is_told(tmp_path: Path) -> None:
    async def hang_up(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    (tmp_path / "run").mkdir()
    server = await asyncio.start_unix_server(hang_up, str(socket_in(tmp_path)))
    with pytest.raises(ConfigError, match="gives no answer: "):
        await asyncio.to_thread(ask, tmp_path, OFF, "n1")
    server.close()
    await server.wait_closed()


def test_the_answer_keeps_its_lines_and_nothing_in_it_commands_the_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(power, "ask", lambda folder, turn, node: f"{node} is {turn}\nkubectl taint\x1b[2J")
    assert 0 == dev_power.run(["kill-node", "n1", f"--state={tmp_path}"], "mooring dev")
    assert "n1 is off\nkubectl taint\\x1b[2J\n" == capsys.readouterr().out
