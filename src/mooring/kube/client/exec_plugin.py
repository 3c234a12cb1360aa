"""Runs an exec plugin of a kubeconfig to its end, and reads the credentials it prints.

Protocol: client.authentication.k8s.io v1 and v1beta1
(kubernetes.io/docs/reference/config-api/client-authentication.v1).
A plugin's standard output is secret and never shown; the end of its standard error is, with tokens removed.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import re
import signal
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from mooring.base.clock import parse_rfc3339
from mooring.base.errors import ConfigError
from mooring.base.json_text import JsonDecoder, TooDeep
from mooring.kube.client.config import ExecPlugin, InteractiveMode, clean_token

_OUT, _ERR = 1, 2
_answer: Final = JsonDecoder[dict[str, Any]](dict)

OUTPUT_BYTES_MAX: Final = 2**20
"""Bytes that are kept of each stream, its last ones: so the program never waits for us."""
HELD_S_MAX: Final = 1.0
"""How long the streams may stay open after the program's end: another one that it has started may hold them for
ever.
"""

_SAID_LENGTH_MAX: Final = 300
_TOKEN_LIKE: Final = re.compile(r"[A-Za-z0-9_.=+-]{32,}")


@dataclasses.dataclass(frozen=True, slots=True)
class PluginAnswer:
    """The credentials that a plug-in has printed."""

    #: "" when there is only a certificate.
    token: str = dataclasses.field(repr=False)
    #: PEM, with its key: both or neither.
    certificate: bytes = dataclasses.field(repr=False)
    key: bytes = dataclasses.field(repr=False)
    #: Seconds since 1970, None for never.
    expires_s: float | None


async def run_plugin(plugin: ExecPlugin, timeout_s: float) -> PluginAnswer:
    """The credentials that the plugin gives. Raises ConfigError; the process is gone when this returns or raises."""
    interactive = _may_interact(plugin)
    spec: dict[str, Any] = {"interactive": interactive}
    if plugin.cluster is not None:
        spec["cluster"] = plugin.cluster
    info = {"apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": spec}
    environment = {**plugin.environment, "KUBERNETES_EXEC_INFO": msgspec.json.encode(info).decode()}
    try:
        async with asyncio.timeout(timeout_s):
            code, output, stderr = await _printed(
                (plugin.command, *plugin.arguments), environment, with_terminal=interactive
            )
    except TimeoutError:
        raise _failure(plugin, f"did not end within {timeout_s:g} s") from None
    except (OSError, ValueError) as error:
        raise _failure(
            plugin, f"can't be started: {getattr(error, 'strerror', None) or type(error).__name__}"
        ) from None
    if code != 0:
        raise _failure(plugin, f"ended with code {code}{_stderr_end(stderr)}")
    return _read_answer(plugin, output, stderr)


def _may_interact(plugin: ExecPlugin) -> bool:
    terminal = (
        plugin.mode is not InteractiveMode.NEVER
        and sys.stdin is not None
        and not sys.stdin.closed
        and sys.stdin.isatty()
    )
    if plugin.mode is InteractiveMode.ALWAYS and not terminal:
        raise _failure(plugin, "wants to ask on the terminal (interactiveMode: Always), but standard input is none")
    return terminal


def _read_answer(plugin: ExecPlugin, output: bytes, stderr: bytes) -> PluginAnswer:
    try:
        answer = _answer.decode(output)
    except TooDeep as error:
        raise _failure(plugin, f"printed what can't be read: {error}") from None
    except ValueError:
        raise _failure(
            plugin, f"printed no JSON object ({len(output)} bytes), expected an ExecCredential{_stderr_end(stderr)}"
        ) from None
    if answer.get("kind") != "ExecCredential" or answer.get("apiVersion") != plugin.api_version:
        shown = {name: value if isinstance(value := answer.get(name), str) else "" for name in ("apiVersion", "kind")}
        raise _failure(
            plugin,
            f'printed apiVersion "{_scrubbed(shown["apiVersion"])}", kind "{_scrubbed(shown["kind"])}", expected '
            f'"{plugin.api_version}", "ExecCredential"; make the kubeconfig\'s apiVersion the one that the '
            "plugin speaks",
        )
    status = answer.get("status")
    if not isinstance(status, dict):
        raise _failure(plugin, "printed an ExecCredential without status")
    token, certificate, key = (
        _text(plugin, status, name) for name in ("token", "clientCertificateData", "clientKeyData")
    )
    if bool(certificate) != bool(key):
        raise _failure(plugin, "printed only one of clientCertificateData and clientKeyData")
    if not token and not certificate:
        raise _failure(plugin, "printed neither a token nor a certificate")
    if token and clean_token(token) is None:
        raise _failure(plugin, "printed a token with characters that no token has")
    return PluginAnswer(token.strip(), certificate.encode(), key.encode(), _expiry(plugin, status))


def _text(plugin: ExecPlugin, status: dict[str, Any], field: str) -> str:
    value = status.get(field)
    if value is not None and not isinstance(value, str):
        raise _failure(plugin, f"printed a status.{field} that is no text")
    return value or ""


def _expiry(plugin: ExecPlugin, status: dict[str, Any]) -> float | None:
    text = _text(plugin, status, "expirationTimestamp")
    if not text:
        return None
    try:
        return parse_rfc3339(text)
    except ValueError:
        raise _failure(
            plugin, "printed an expirationTimestamp that is no RFC 3339 time, as in 2024-01-02T03:04:05Z"
        ) from None


def _failure(plugin: ExecPlugin, what: str) -> ConfigError:
    hint = f". The kubeconfig says: {plugin.install_hint}" if plugin.install_hint else ""
    return ConfigError(f'{plugin.where}: the plugin "{plugin.command}" {what}{hint}')


def _stderr_end(text: bytes) -> str:
    end = _scrubbed(" ".join(text[-4 * _SAID_LENGTH_MAX :].decode(errors="replace").split()))
    return f"; it said: {end[-_SAID_LENGTH_MAX:]}" if end else ""


def _scrubbed(text: str) -> str:
    return _TOKEN_LIKE.sub("…", text)


class _Printed(NamedTuple):
    """code: as `subprocess` has it, below 0 for a signal."""

    code: int
    output: bytes
    errors: bytes


async def _printed(command: Sequence[str], environment: Mapping[str, str], *, with_terminal: bool) -> _Printed:
    """Runs the program to its end, without waiting for others that it has started. with_terminal: it has our standard
    input and error.

    Raises OSError, ValueError for what can't be started. When this returns or raises, cancelled too, the program is
    gone, and what it has started in its session, unless it has ours.
    """
    pipe, none = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
    transport, child = await asyncio.get_running_loop().subprocess_exec(
        _Child,
        *command,
        stdin=None if with_terminal else none,
        stdout=pipe,
        stderr=None if with_terminal else pipe,
        env=environment,
        start_new_session=not with_terminal,
    )
    try:
        try:
            await child.ended.wait()
        finally:
            _kill(transport, whole_session=not with_terminal)
            await child.ended.wait()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(HELD_S_MAX):
                await child.closed.wait()
    finally:
        transport.close()
    code = transport.get_returncode()
    assert code is not None
    return _Printed(code, bytes(child.kept[_OUT]), bytes(child.kept[_ERR]))


def _kill(transport: asyncio.SubprocessTransport, *, whole_session: bool) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if whole_session:
            os.killpg(transport.get_pid(), signal.SIGKILL)
        else:
            transport.kill()


class _Child(asyncio.SubprocessProtocol):
    """The program as it runs. ended: set once it has ended. closed: set once its streams are closed, too."""

    def __init__(self) -> None:
        self.kept = {_OUT: bytearray(), _ERR: bytearray()}
        self.ended, self.closed = asyncio.Event(), asyncio.Event()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        kept = self.kept[fd]
        kept += data
        if len(kept) > 2 * OUTPUT_BYTES_MAX:
            del kept[:-OUTPUT_BYTES_MAX]

    def process_exited(self) -> None:
        self.ended.set()

    def connection_lost(self, exc: Exception | None) -> None:
        """All streams are closed, and the program has ended."""
        for kept in self.kept.values():
            del kept[:-OUTPUT_BYTES_MAX]
        self.closed.set()
