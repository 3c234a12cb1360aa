"""Credentials stay fresh: tokens are read again, plugins run again, and neither too often."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from mooring.base.errors import ConfigError
from mooring.kube.client.config import ExecPlugin, KubeconfigUser, Pem
from mooring.kube.client.credentials import Credentials, credentials_of
from tests.support.rows import each_row
from tests.unit.kube.instant_clock import InstantClock
from tests.unit.kube.kubeconfigs import SECRET, a_program


def nowhere(certificate: Pem, key: Pem) -> None:
    raise AssertionError("no certificate was expected")


def authorization(credentials: Credentials) -> str:
    credential = credentials.current()
    assert credential is not None
    return credential.authorization


@each_row(
    ("user", "header"),
    [
        (KubeconfigUser(), ""),
        (KubeconfigUser(token="t"), "Bearer t"),
        (KubeconfigUser(username="a", password="ü:b"), "Basic YTrDvDpi"),
    ],
)
async def test_fixed_credentials_are_what_they_are(user: KubeconfigUser, header: str) -> None:
    credentials = credentials_of(user, InstantClock(), nowhere)
    assert header == authorization(credentials)
    credential = await credentials.fetch()
    assert not await credentials.refused(credential)
    assert "YTrDvDpi" not in repr(credential)


async def test_a_token_file_is_read_again_after_a_minute(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("one\n")
    clock = InstantClock()
    credentials = credentials_of(KubeconfigUser(token_file=str(tmp_path / "token")), clock, nowhere)
    first = credentials.current()
    (tmp_path / "token").write_text("two")
    clock.pass_s(59)
    assert first is credentials.current()
    clock.pass_s(1)
    assert authorization(credentials) == "Bearer two"


async def test_a_refused_token_is_read_again_at_once(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("one")
    credentials = credentials_of(KubeconfigUser(token_file=str(tmp_path / "token")), InstantClock(), nowhere)
    first = credentials.current()
    assert first is not None
    assert not await credentials.refused(first)
    (tmp_path / "token").write_text("two")
    assert await credentials.refused(first)
    assert authorization(credentials) == "Bearer two"
    assert await credentials.refused(first), "another request was refused with the old token: it may try again"


@each_row("broken", [None, "", "  \n", "a\nb", "\x00"])
async def test_a_token_file_that_breaks_leaves_the_last_token(
    tmp_path: Path, broken: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "token"
    path.write_text(SECRET)
    clock = InstantClock()
    credentials = credentials_of(KubeconfigUser(token_file=str(path)), clock, nowhere)
    first = credentials.current()
    if broken is None:
        path.unlink()
    else:
        path.write_text(broken)
    clock.pass_s(100)
    assert first is credentials.current()
    told = capsys.readouterr().err
    assert str(path) in told
    assert SECRET not in told
    path.write_text("new")
    clock.pass_s(100)
    assert authorization(credentials) == "Bearer new"


async def test_a_token_stands_in_for_its_file(tmp_path: Path) -> None:
    path = tmp_path / "token"
    clock = InstantClock()
    credentials = credentials_of(KubeconfigUser(token="fixed", token_file=str(path)), clock, nowhere)
    assert authorization(credentials) == "Bearer fixed"
    path.write_text("fresh")
    clock.pass_s(60)
    assert authorization(credentials) == "Bearer fresh"


async def test_a_token_file_that_was_never_there_is_told(tmp_path: Path) -> None:
    credentials = credentials_of(KubeconfigUser(token_file=str(tmp_path / "token")), InstantClock(), nowhere)
    assert credentials.current() is None
    with pytest.raises(ConfigError, match="holds no token"):
        await credentials.fetch()


class Counting:
    """A plugin that gives token 1, 2, 3, … and remembers its runs. first: what its script does before."""

    def __init__(self, folder: Path, status: str = "", first: str = "") -> None:
        self._runs = folder / "runs"
        self.broken = folder / "broken"
        answer = (
            '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"%s"'
            + status
            + "}}"
        )
        script = (
            f"{first}test -e {self.broken} && exit 1; echo >> {self._runs}; printf '{answer}' $(wc -l < {self._runs})"
        )
        self.plugin = ExecPlugin("exec", a_program(folder, script), environment={"PATH": "/usr/bin:/bin"})

    @property
    def run_count(self) -> int:
        return len(self._runs.read_text().splitlines()) if self._runs.exists() else 0


async def test_a_plugin_runs_once_however_many_ask(tmp_path: Path) -> None:
    program = Counting(tmp_path)
    clock = InstantClock()
    credentials = credentials_of(KubeconfigUser(exec_plugin=program.plugin), clock, nowhere)
    assert credentials.current() is None
    fetched = await asyncio.gather(*(credentials.fetch() for _ in range(10)))
    clock.pass_s(1e9)
    assert {"Bearer 1"} == {credential.authorization for credential in fetched} | {authorization(credentials)}
    assert program.run_count == 1


async def test_a_plugin_runs_again_when_its_credentials_have_expired(tmp_path: Path) -> None:
    clock = InstantClock(wall_s=1704164600.0)
    program = Counting(tmp_path, ',"expirationTimestamp":"2024-01-02T03:04:05Z"')
    credentials = credentials_of(KubeconfigUser(exec_plugin=program.plugin), clock, nowhere)
    await credentials.fetch()
    clock.pass_s(44)
    assert authorization(credentials) == "Bearer 1"
    clock.pass_s(1)
    assert credentials.current() is None
    await credentials.fetch()
    assert authorization(credentials) == "Bearer 2", (
        "it is expired already, but a plugin is not run twice within its pause"
    )
    clock.pass_s(5)
    assert credentials.current() is None


def a_slow_plugin(folder: Path) -> Counting:
    """It answers once `folder / "go"` is there."""
    return Counting(folder, first=f"while ! test -e {folder}/go; do sleep 0.01; done; ")


async def test_a_run_goes_on_when_who_waits_for_it_gives_up(tmp_path: Path) -> None:
    """A renewal of a Lease has less time than many a plugin takes: what each try tore off would never come to an
    end.
    """
    program = a_slow_plugin(tmp_path)
    credentials = credentials_of(KubeconfigUser(exec_plugin=program.plugin), InstantClock(), nowhere)
    for _ in range(2):
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(credentials.fetch(), 0.05)
    (tmp_path / "go").touch()
    assert (await credentials.fetch()).authorization == "Bearer 1"
    assert program.run_count == 1


async def test_a_run_that_nobody_waits_for_is_ended_with_the_client(tmp_path: Path) -> None:
    credentials = credentials_of(KubeconfigUser(exec_plugin=a_slow_plugin(tmp_path).plugin), InstantClock(), nowhere)
    waiting = asyncio.get_running_loop().create_task(credentials.fetch(), name="fetch")
    await asyncio.sleep(0.02)
    await credentials.close()
    with pytest.raises(ConfigError, match="was ended with its client"):
        await waiting


async def test_what_has_expired_is_given_to_nobody_while_the_plugin_fails(tmp_path: Path) -> None:
    clock = InstantClock(wall_s=1704164600.0)
    program = Counting(tmp_path, ',"expirationTimestamp":"2024-01-02T03:04:05Z"')
    credentials = credentials_of(KubeconfigUser(exec_plugin=program.plugin), clock, nowhere)
    await credentials.fetch()
    clock.pass_s(45)
    program.broken.touch()
    for _ in range(2):
        assert credentials.current() is None
        with pytest.raises(ConfigError, match="ended with code 1"):
            await credentials.fetch()


async def test_a_refusal_runs_the_plugin_again_but_not_in_a_storm(tmp_path: Path) -> None:
    clock = InstantClock()
    program = Counting(tmp_path)
    credentials = credentials_of(KubeconfigUser(exec_plugin=program.plugin), clock, nowhere)
    first = await credentials.fetch()
    assert not await credentials.refused(first)
    clock.pass_s(5)
    assert all(await asyncio.gather(*(credentials.refused(first) for _ in range(10))))
    assert program.run_count == 2
    second = await credentials.fetch()
    assert not await credentials.refused(second)
    clock.pass_s(5)
    assert await credentials.refused(first), (
        "a late answer to the first: the second has not been refused after the pause"
    )
    assert program.run_count == 2


async def test_a_plugin_that_fails_is_asked_again_after_a_pause(tmp_path: Path) -> None:
    clock = InstantClock()
    program = Counting(tmp_path)
    program.broken.touch()
    credentials = credentials_of(KubeconfigUser(exec_plugin=program.plugin), clock, nowhere)
    for _ in range(2):
        with pytest.raises(ConfigError, match="ended with code 1"):
            await credentials.fetch()
        program.broken.unlink(missing_ok=True)
    assert program.run_count == 0, "the second failure is the remembered one"
    clock.pass_s(5)
    assert (await credentials.fetch()).authorization == "Bearer 1"


async def test_a_plugin_that_fails_after_a_refusal_leaves_things_as_they_were(tmp_path: Path) -> None:
    clock = InstantClock()
    program = Counting(tmp_path)
    credentials = credentials_of(KubeconfigUser(exec_plugin=program.plugin), clock, nowhere)
    first = await credentials.fetch()
    program.broken.touch()
    clock.pass_s(5)
    assert not await credentials.refused(first)
    assert first is credentials.current()


async def test_a_certificate_from_a_plugin_is_handed_on(tmp_path: Path) -> None:
    status = {"clientCertificateData": "cert", "clientKeyData": "key"}
    answer = json.dumps({"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status})
    plugin = ExecPlugin("exec", a_program(tmp_path, f"printf '%s' '{answer}'"), environment={"PATH": "/usr/bin:/bin"})
    handed: list[tuple[Pem, Pem]] = []
    credentials = credentials_of(KubeconfigUser(exec_plugin=plugin), InstantClock(), lambda *pair: handed.append(pair))
    assert (await credentials.fetch()).authorization == ""
    assert [(b"cert", b"key")] == [(certificate.data, key.data) for certificate, key in handed]
