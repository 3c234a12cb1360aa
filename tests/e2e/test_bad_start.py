"""What can be wrong before an attacher works: its flags, its kubeconfig, its socket. Each is said, with what to do."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import socket
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme

from mooring.cli import csi_attacher
from tests.e2e.processes import CSI_ATTACHER, Attacher, ProcessTarget, embedded_server, on_server
from tests.support.in_process import in_process
from tests.support.programs import free_ports
from tests.support.rows import each_row

pytestmark = pytest.mark.slow

ELECTION = "--leader-election"
USAGE = "Usage of "
DURATIONS = "allowed: numbers with units, as in 15s, 300ms or 1m30s"
GATES = "allowed: Name=true|false pairs, as in A=true,B=false"
ADDRESS = "it has the form host:port, as in :8080"

FLAGS: dict[str, tuple[list[str], int, list[str]]] = {
    "FL03-unknown": (["--no-such"], 2, ["flag provided but not defined: -no-such", USAGE]),
    "bad-syntax": (["---v"], 2, ["bad flag syntax: ---v", USAGE]),
    "no-value": (["--timeout"], 2, ["flag needs an argument: -timeout", USAGE]),
    "no-duration": (["--timeout=abc"], 2, ['invalid value "abc" for flag -timeout', DURATIONS]),
    "bare-number": (["--resync=15"], 2, ["missing unit in duration", DURATIONS]),
    "negative-duration": (["--timeout=-1s"], 1, ["timeout: must be greater than zero, as in 15s"]),
    "no-number": (
        ["--worker-threads=-1"],
        2,
        ['invalid value "-1" for flag -worker-threads', "a whole number, not negative"],
    ),
    "ST01-no-workers": (["--worker-threads=0"], 1, ["Option -worker-threads must be greater than zero"]),
    "pages-too-large": (["--max-entries=4294967296"], 1, ["max-entries: must be between 0 and 2147483647"]),
    "no-boolean": ([f"{ELECTION}=maybe"], 2, ['invalid value "maybe" for flag -leader-election', "true or false"]),
    "ST04-unknown-gate": (
        ["--feature-gates=NoSuch=true"],
        1,
        ["unrecognized feature gate: NoSuch", "known are AllAlpha"],
    ),
    "ST04-malformed-gate": (["--feature-gates=NoSuch"], 2, ["missing bool value for NoSuch", GATES]),
    "LE04-durations": (
        [ELECTION, "--leader-election-lease-duration=10s"],
        2,
        ["greater than the renew deadline", "lease-duration=10s"],
    ),
    "LE06-labels": (["--leader-election-labels=a"], 2, ['"a" is no pair', "as in team:storage"]),
    "HT01-two-addresses": (["--http-endpoint=:1", "--metrics-address=:2"], 1, ["only one of", "drop it"]),
    "no-address": (["--http-endpoint=8080"], 1, ['"8080" is no address to listen on', ADDRESS]),
    "FL04-no-burst": (["--kube-api-burst=0"], 1, ["kube-api-burst", "greater than 0"]),
    "LG05-format": (["--logging-format=xml"], 1, ['unsupported log format "xml"; use text or json']),
    "CO07-network": (
        ["--csi-address=localhost:1234"],
        1,
        ["only supported for unix:// addresses", "as in /run/csi/socket"],
    ),
    "long-path": ([f"--csi-address=/{'x' * 120}"], 1, ["the path has 121 bytes, a socket's may have 107"]),
    "no-cluster": ([], 1, ["no kubeconfig was given, and this is no pod", "give --kubeconfig"]),
}


@each_row("case", FLAGS)
def test_a_command_line_that_can_not_be(case: str) -> None:
    words, code, texts = FLAGS[case]
    ended = _said(*words)
    assert code == ended.returncode, ended.stderr
    assert [] == [text for text in texts if text not in ended.stderr], ended.stderr
    assert "Traceback" not in ended.stderr


def test_HT02_a_port_that_is_taken(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        address = f"127.0.0.1:{other.getsockname()[1]}"
        config = tmp_path / "kubeconfig"
        config.write_text(json.dumps(_kubeconfig(server="https://127.0.0.1:1")))
        ended = _ended(f"--http-endpoint={address}", f"--kubeconfig={config}")
    assert 1 == ended.returncode
    assert "Traceback" not in ended.stderr
    assert address in ended.stderr
    assert "in use" in ended.stderr


ALONE = {"PATH": "/usr/bin:/bin"}
"""No cluster around us."""


def _said(*words: str) -> subprocess.CompletedProcess[str]:
    ended = in_process(lambda words: csi_attacher.run(words, "csi-attacher"), *words, environ=ALONE)
    ended.stderr = _unquoted(ended.stderr)
    return ended


def _ended(*words: str) -> subprocess.CompletedProcess[str]:
    ended = subprocess.run([CSI_ATTACHER, *words], env=ALONE, capture_output=True, text=True, timeout=30, check=False)
    ended.stderr = _unquoted(ended.stderr)
    return ended


def _unquoted(log: str) -> str:
    """Texts as they were before the log put them in quotes."""
    return log.replace('\\"', '"')


# -- kubeconfigs


def _kubeconfig(**cluster: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    }


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


SERVER = {"server": "https://127.0.0.1:1"}
UNUSABLE: dict[str, tuple[str | dict[str, Any] | None, list[str]]] = {
    "missing-file": (None, ["does not exist", "check the path"]),
    "empty": ("", ["is empty"]),
    "bad-yaml": ("clusters: [\n", ["is not valid YAML"]),
    "other-file": ("some text", ["must be a mapping with clusters, contexts and users"]),
    "other-kind": ({"kind": "Pod", "apiVersion": "v1"}, ['its kind is "Pod"', "is it the right file?"]),
    "no-context": ({**_kubeconfig(**SERVER), "current-context": ""}, ["current-context is not set", "contexts: c"]),
    "unknown-context": (
        {**_kubeconfig(**SERVER), "current-context": "d"},
        ['context "d" does not exist', "contexts: c"],
    ),
    "no-cluster": ({**_kubeconfig(), "clusters": []}, ['its cluster "c" does not exist', "it has no clusters"]),
    "no-server": (_kubeconfig(), ["server is not set"]),
    "bad-server": (_kubeconfig(server="ftp://h"), ['its scheme is "ftp", must be https or http']),
    "ca-no-base64": (
        _kubeconfig(**SERVER, **{"certificate-authority-data": "%"}),
        ["certificate-authority-data is not base64"],
    ),
    "ca-no-pem": (
        _kubeconfig(**SERVER, **{"certificate-authority-data": _base64(b"x")}),
        ["certificate-authority-data", "certificate"],
    ),
    "ca-missing": (
        _kubeconfig(**SERVER, **{"certificate-authority": "/no/ca"}),
        ["certificate-authority", "/no/ca", "does not exist"],
    ),
}


@each_row("case", UNUSABLE)
def test_a_kubeconfig_that_can_not_be_used(tmp_path: Path, case: str) -> None:
    content, texts = UNUSABLE[case]
    config = tmp_path / "kubeconfig"
    if content is not None:
        config.write_text(content if isinstance(content, str) else json.dumps(content))
    ended = _said(f"--kubeconfig={config}", f"--csi-address={tmp_path}/none.sock")
    assert 1 == ended.returncode, ended.stderr
    assert [] == [text for text in (str(config), *texts) if text not in ended.stderr], ended.stderr
    assert "Traceback" not in ended.stderr


@contextlib.asynccontextmanager
async def a_target(folder: Path) -> AsyncIterator[ProcessTarget]:
    async with asyncio.timeout(90), embedded_server(folder) as config, on_server(config) as target:
        yield target


WRONG: dict[str, tuple[Callable[[dict[str, Any]], None], list[str]]] = {
    "wrong-port": (
        lambda values: _cluster(values).update(server=f"https://127.0.0.1:{free_ports(1)[0]}"),
        ["nothing listens there", "does the API server run"],
    ),
    "other-ca": (
        lambda values: _cluster(values).update({"certificate-authority-data": _base64(trustme.CA().cert_pem.bytes())}),
        ["is not trusted", "check certificate-authority"],
    ),
    "other-name": (
        lambda values: _cluster(values).update({"tls-server-name": "other"}),
        ["is for another name", "tls-server-name"],
    ),
    "bad-token": (lambda values: values["users"][0].update(user={"token": "wrong"}), ["Unauthorized"]),
}


def _cluster(values: dict[str, Any]) -> dict[str, Any]:
    cluster: dict[str, Any] = values["clusters"][0]["cluster"]
    return cluster


@pytest.mark.parametrize("case", WRONG)
async def test_a_server_that_can_not_be_reached_so(tmp_path: Path, case: str) -> None:
    """As upstream's, the process lives on, says why, and is not ready."""
    change, texts = WRONG[case]
    async with a_target(tmp_path) as target:
        values = json.loads(_read(target.config))
        change(values)
        target.config = tmp_path / "wrong.kubeconfig"
        _write(target.config, json.dumps(values))
        port = free_ports(1)[0]
        async with target.attaching(f"--http-endpoint=127.0.0.1:{port}") as attacher:
            for resource in ("volumeattachments", "persistentvolumes", "csinodes"):
                told = await attacher.said("Failed to list or watch", f"informer/{resource}")
                assert [] == [text for text in texts if text not in told], told
            status, body = await asyncio.to_thread(_get, port, "/readyz")
            assert (503, "not ready: the caches are not filled yet") == (
                status,
                body.partition(": can't follow volumeattachments: ")[0],
            )
            assert [] == [text for text in texts if text not in body], body
            assert (200, "ok") == await asyncio.to_thread(_get, port, "/healthz")
            attacher.assert_alive()


async def test_a_token_file_that_is_mended_is_read_again(tmp_path: Path) -> None:
    async with a_target(tmp_path) as target:
        values = json.loads(_read(target.config))
        token = values["users"][0]["user"]["token"]
        values["users"][0]["user"] = {"tokenFile": str(tmp_path / "token")}
        target.config = tmp_path / "token.kubeconfig"
        _write(target.config, json.dumps(values))
        _write(tmp_path / "token", "stale")
        va = await target.want(await target.volume(), await target.node())
        async with target.attaching() as attacher:
            assert "Unauthorized" in await attacher.said("Failed to list or watch")
            _write(tmp_path / "token", token)
            await target.attached(va)


def _get(port: int, path: str) -> tuple[int, str]:
    """Status and body, by hand: urllib takes 503 for an exception."""
    with socket.create_connection(("127.0.0.1", port), 5) as connection:
        connection.sendall(f"GET {path} HTTP/1.0\r\n\r\n".encode())
        answer = b""
        while chunk := connection.recv(65536):
            answer += chunk
    head, _, body = answer.decode().partition("\r\n\r\n")
    return int(head.split()[1]), body


def _read(path: Path) -> str:
    return path.read_text()


def _write(path: Path, text: str) -> None:
    path.write_text(text)


# -- sockets


async def _as_http(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(1)
    writer.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
    writer.close()


async def _as_noise(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(bytes(range(256)) * 16)
    writer.close()


async def _as_nobody(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()
    writer.close()


@pytest.mark.long
async def test_a_socket_that_is_no_drivers(tmp_path: Path) -> None:
    """All at the same time: each takes the half minute that a driver may need to appear, then exits with 1."""
    foreign = "somebody listens there, but does not speak gRPC"
    cases = {
        "missing": "the socket does not exist yet: is the driver running",
        "file": "it is a file, not a socket",
        "folder": "it is a folder, not a socket",
        "dead": "the socket is there, but nobody listens on it",
        "http": foreign,
        "noise": foreign,
        "silent": foreign,
    }
    config = tmp_path / "kubeconfig"
    _write(config, json.dumps(_kubeconfig(**SERVER)))
    with _in_their_places(tmp_path):
        servers = [
            await asyncio.start_unix_server(talk, tmp_path / name)
            for name, talk in (("http", _as_http), ("noise", _as_noise), ("silent", _as_nobody))
        ]
        attachers = {
            name: Attacher(tmp_path, f"--csi-address={tmp_path / name}", f"--kubeconfig={config}") for name in cases
        }
        try:
            codes = await asyncio.gather(*(attacher.exit_code(45) for attacher in attachers.values()))
        finally:
            for attacher in attachers.values():
                await attacher.kill()
            for server in servers:
                server.close()
    assert [1] * len(cases) == codes
    for name, text in cases.items():
        told = f"no connection to the CSI driver at '{tmp_path / name}' within 30 s: {text}"
        assert told in attachers[name].log, attachers[name].log
        assert text in attachers[name].log.split("Still connecting")[1], "it was said meanwhile, too"


@contextlib.contextmanager
def _in_their_places(folder: Path) -> Iterator[None]:
    """A file, a folder, and the socket of a driver that is no more."""
    (folder / "file").write_text("I am a file")
    (folder / "folder").mkdir()
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(folder / "dead"))
    yield
