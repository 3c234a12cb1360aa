"""Exec plugins are told what the protocol says, and believed only when they keep to it."""

from __future__ import annotations

import asyncio
import io
import json
import os
import select
import signal
from pathlib import Path
from typing import Any

import pytest

from mooring.base.errors import ConfigError
from mooring.kube.client import exec_plugin
from mooring.kube.client.config import ExecPlugin, InteractiveMode
from mooring.kube.client.exec_plugin import run_plugin
from tests.support.rows import each_row
from tests.unit.kube.kubeconfigs import SECRET, a_program

V1 = "client.authentication.k8s.io/v1"


def a_plugin(folder: Path, script: str, **more: Any) -> ExecPlugin:
    return ExecPlugin(
        'user "u": exec',
        a_program(folder, script),
        environment={"PATH": os.environ["PATH"], **more.pop("env", {})},
        **more,
    )


def printing(folder: Path, status: object, **top: Any) -> ExecPlugin:
    """A plugin that prints this status."""
    (folder / "answer").write_text(json.dumps({"apiVersion": V1, "kind": "ExecCredential", "status": status, **top}))
    return a_plugin(folder, f"cat {folder}/answer")


async def refused(plugin: ExecPlugin, timeout_s: float = 10.0) -> str:
    with pytest.raises(ConfigError) as caught:
        await run_plugin(plugin, timeout_s)
    message = str(caught.value)
    assert SECRET not in message
    assert plugin.command in message
    return message


async def test_a_plugin_is_told_the_cluster_and_its_own_environment(tmp_path: Path) -> None:
    script = 'printf "%s" "$KUBERNETES_EXEC_INFO" > info; echo "$1 $A" > seen; cat > stdin; cat answer'
    printing(tmp_path, {"token": "t"})
    plugin = a_plugin(
        tmp_path,
        f"cd {tmp_path}; {script}",
        arguments=("an argument",),
        env={"A": "1"},
        cluster={"server": "https://h"},
    )
    assert (await run_plugin(plugin, 10)).token == "t"
    assert json.loads((tmp_path / "info").read_text()) == {
        "apiVersion": V1,
        "kind": "ExecCredential",
        "spec": {"interactive": False, "cluster": {"server": "https://h"}},
    }
    assert (tmp_path / "seen").read_text() == "an argument 1\n"
    assert (tmp_path / "stdin").read_text() == ""


async def test_tokens_certificates_and_their_end_are_read(tmp_path: Path) -> None:
    status = {
        "token": "t\n",
        "clientCertificateData": "cert",
        "clientKeyData": "key",
        "expirationTimestamp": "2024-01-02T03:04:05Z",
    }
    answer = await run_plugin(printing(tmp_path, status), 10)
    assert ("t", b"cert", b"key", 1704164645.0) == (answer.token, answer.certificate, answer.key, answer.expires_s)
    assert "key" not in repr(answer).replace("key=", "")


@each_row(
    ("status", "told"),
    [
        (None, "without status"),
        ([], "without status"),
        ({}, "neither a token nor a certificate"),
        ({"token": 5}, "status.token that is no text"),
        ({"token": f"{SECRET}\r\nX: y"}, "a token with characters that no token has"),
        ({"clientCertificateData": SECRET}, "only one of clientCertificateData and clientKeyData"),
        ({"token": SECRET, "expirationTimestamp": "tomorrow"}, "is no RFC 3339 time"),
        ({"token": SECRET, "expirationTimestamp": "2024-01-02T03:04:05"}, "is no RFC 3339 time"),
    ],
)
async def test_an_answer_that_breaks_the_protocol_is_refused(tmp_path: Path, status: object, told: str) -> None:
    assert told in await refused(printing(tmp_path, status))


async def test_an_answer_of_another_version_names_both(tmp_path: Path) -> None:
    message = await refused(printing(tmp_path, {"token": SECRET}, apiVersion="client.authentication.k8s.io/v1beta1"))
    assert 'printed apiVersion "client.authentication.k8s.io/v1beta1", kind "ExecCredential", expected' in message
    assert 'kind "Secret"' in await refused(printing(tmp_path, {"token": SECRET}, kind="Secret"))


@each_row("output", ["", "garbage", f"[{SECRET}]", '{"kind":', "null"])
async def test_garbage_is_refused_and_not_shown(tmp_path: Path, output: str) -> None:
    assert "printed no JSON object" in await refused(a_plugin(tmp_path, f"printf '%s' '{output}'"))


async def test_a_plugin_that_fails_is_told_with_its_last_words_and_the_hint(tmp_path: Path) -> None:
    jwt = "eyJhbGciOiJSUzI1NiIsImtpZCI6IjAifQ.eyJzdWIiOiJ4In0.c2lnbmF0dXJl"
    script = f"echo {SECRET}; echo 'first line' >&2; echo 'log in first, old token {jwt}' >&2; exit 3"
    message = await refused(a_plugin(tmp_path, script, install_hint="see example.com"))
    assert "ended with code 3; it said: first line log in first, old token ….  The".replace(".  ", ". ") in message
    assert "The kubeconfig says: see example.com" in message
    assert jwt not in message


async def test_a_plugin_killed_by_a_signal_is_told(tmp_path: Path) -> None:
    assert "ended with code -9" in await refused(a_plugin(tmp_path, "kill -9 $$"))


async def test_a_plugin_that_can_not_be_started_is_told(tmp_path: Path) -> None:
    plugin = a_plugin(tmp_path, "true")
    (tmp_path / "plugin").write_text("#!/no/such/interpreter\n")
    assert "can't be started: No such file" in await refused(plugin)


async def test_a_plugin_that_hangs_is_given_up(tmp_path: Path) -> None:
    assert "did not end within 0.05 s" in await refused(a_plugin(tmp_path, "exec sleep 1000"), timeout_s=0.05)


def next_words(reader: int) -> bytes:
    """What is in a fifo, b"" once nobody has it open for writing."""
    ready, _, _ = select.select([reader], [], [], 5)
    assert ready, "somebody has the fifo open and says nothing"
    return os.read(reader, 100)


async def test_what_a_plugin_leaves_running_holds_nothing_up_and_goes(tmp_path: Path) -> None:
    """It has the plugin's standard output, whose end would never come."""
    printing(tmp_path, {"token": "t"})
    reader = os.open(_fifo(tmp_path), os.O_RDONLY | os.O_NONBLOCK)
    plugin = a_plugin(tmp_path, f"sleep 1000 3>{tmp_path}/lives & cat {tmp_path}/answer")
    assert "t" == (await run_plugin(plugin, 10)).token
    assert await _is_closed(reader)


async def test_what_has_left_the_plugins_session_holds_nothing_up_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent that a plugin starts for the next time stays, whatever it holds."""
    monkeypatch.setattr(exec_plugin, "HELD_S_MAX", 0.01)
    printing(tmp_path, {"token": "t"})
    plugin = a_plugin(
        tmp_path,
        f"setsid sh -c 'echo $$ > {tmp_path}/agent; exec sleep 1000' & cat {tmp_path}/answer; while ! test -s "
        f"{tmp_path}/agent; do :; done",
    )
    assert "t" == (await run_plugin(plugin, 10)).token
    os.kill(int((tmp_path / "agent").read_text()), signal.SIGKILL)


def _fifo(folder: Path) -> Path:
    """Closed for reading once nobody has it open for writing any more."""
    os.mkfifo(folder / "lives")
    return folder / "lives"


async def _is_closed(reader: int) -> bool:
    async with asyncio.timeout(5):
        while True:
            try:
                if not os.read(reader, 1):
                    return True
            except BlockingIOError:
                pass
            await asyncio.sleep(0)


async def test_a_cancelled_run_ends_the_plugin_and_its_children(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The child holds the fifo: its end is seen only when the child is gone."""
    began = asyncio.Event()
    monkeypatch.setattr(exec_plugin._Child, "connection_made", lambda *_: began.set())
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    try:
        async with asyncio.timeout(10), asyncio.TaskGroup() as group:
            script = f"sh -c 'exec 9> {fifo}; echo up >&9; exec sleep 1000' & wait"
            run = group.create_task(run_plugin(a_plugin(tmp_path, script), 100), name="run")
            await began.wait()
            while await asyncio.to_thread(next_words, reader) != b"up\n":
                pass
            run.cancel()
        assert run.cancelled()
        assert await asyncio.to_thread(next_words, reader) == b""
    finally:
        os.close(reader)


async def test_a_flood_of_output_is_neither_kept_nor_a_dead_lock(tmp_path: Path) -> None:
    message = await refused(a_plugin(tmp_path, "head -c 3000000 /dev/zero >&2; head -c 3000000 /dev/zero"))
    assert "printed no JSON object (1048576 bytes)" in message


async def test_a_plugin_that_must_ask_needs_a_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO())
    assert "standard input is none" in await refused(a_plugin(tmp_path, "true", mode=InteractiveMode.ALWAYS))
    printing(tmp_path, {"token": "t"})
    plugin = a_plugin(tmp_path, f"cat {tmp_path}/answer", mode=InteractiveMode.IF_AVAILABLE)
    assert (await run_plugin(plugin, 10)).token == "t"


async def test_on_a_terminal_a_plugin_may_ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = os.openpty()
    with os.fdopen(ours), os.fdopen(theirs) as terminal:
        monkeypatch.setattr("sys.stdin", terminal)
        printing(tmp_path, {"token": "t"})
        script = f'printf "%s" "$KUBERNETES_EXEC_INFO" > {tmp_path}/info; cat {tmp_path}/answer'
        await run_plugin(a_plugin(tmp_path, script, mode=InteractiveMode.ALWAYS), 10)
        assert json.loads((tmp_path / "info").read_text())["spec"] == {"interactive": True}
        await run_plugin(a_plugin(tmp_path, script, mode=InteractiveMode.NEVER), 10)
        assert json.loads((tmp_path / "info").read_text())["spec"] == {"interactive": False}
