"""The server's identity: made once, kept, private, renewed."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import ssl
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml
from cryptography import x509

from mooring.apiserver.identity.certificates import client_login
from mooring.apiserver.identity.tls import ServerIdentity, identity_in
from mooring.apiserver.web.server import ApiServer
from mooring.apiserver.web.service import Service
from mooring.base.clock import LoopClock
from mooring.base.errors import ConfigError
from mooring.base.randomness import Random
from tests.support.rows import each_row
from tests.support.waiting import eventually
from tests.unit.apiserver.objects import a_store

NOW = 1_800_000_000.0
DAY_S = 86_400.0


def test_an_identity_is_made_once_and_kept(tmp_path: Path) -> None:
    first = identity_in(tmp_path / "state", NOW)
    second = identity_in(tmp_path / "state", NOW + DAY_S)
    assert (first.ca, first.token) == (second.ca, second.token)
    assert first.certificate.read_bytes() == second.certificate.read_bytes()
    assert len(first.token) >= 32


def test_only_the_owner_can_read_it(tmp_path: Path) -> None:
    identity = identity_in(tmp_path / "state", NOW)
    identity.write_kubeconfig(tmp_path / "kubeconfig", "https://127.0.0.1:1")
    files = [*(tmp_path / "state").iterdir(), tmp_path / "kubeconfig"]
    assert {0o600} == {file.stat().st_mode & 0o777 for file in files}
    assert 0o700 == (tmp_path / "state").stat().st_mode & 0o777
    made = {file.name for file in (tmp_path / "state").iterdir()}
    assert {"accounts.key", "ca.crt", "ca.key", "server.crt", "server.key", "token"} == made


def test_an_identity_that_others_could_have_written_is_refused(tmp_path: Path) -> None:
    """Whoever knows the token, or has signed the certificate, is the cluster's admin."""
    identity_in(tmp_path / "tls", NOW)
    (tmp_path / "tls" / "token").chmod(0o666)
    with pytest.raises(
        ConfigError, match=r"can't be trusted: others may write to '.*/tls/token' \(mode 0666\); remove the folder"
    ):
        identity_in(tmp_path / "tls", NOW)


def test_two_folders_have_two_identities(tmp_path: Path) -> None:
    first, second = identity_in(tmp_path / "a", NOW), identity_in(tmp_path / "b", NOW)
    assert first.token != second.token
    assert first.ca != second.ca


def test_the_certificate_is_for_this_machine_alone(tmp_path: Path) -> None:
    certificate = x509.load_pem_x509_certificate(identity_in(tmp_path, NOW).certificate.read_bytes())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert {"127.0.0.1", "::1"} == {str(address) for address in names.get_values_for_type(x509.IPAddress)}
    assert "localhost" in names.get_values_for_type(x509.DNSName)


@each_row("days", [340, 400, 2000])
def test_the_servers_certificate_is_renewed_before_it_runs_out(tmp_path: Path, days: int) -> None:
    first = identity_in(tmp_path, NOW)
    old = first.certificate.read_bytes()
    second = identity_in(tmp_path, NOW + days * DAY_S)
    assert old != second.certificate.read_bytes()
    assert first.ca == second.ca


@each_row("damage", ["server.crt", "server.key"])
def test_a_damaged_server_certificate_is_made_anew(tmp_path: Path, damage: str) -> None:
    identity_in(tmp_path, NOW)
    (tmp_path / damage).write_text("junk")
    identity_in(tmp_path, NOW).context()


def take(client_ca: bytes, identity: ServerIdentity) -> str:
    """What a client with this CA says of the server, at the time of the machine: "" where it connects."""
    client = ssl.create_default_context(cadata=client_ca.decode())
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = (
        client.wrap_bio(to_client, to_server, server_hostname="localhost"),
        identity.context().wrap_bio(to_server, to_client, server_side=True),
    )
    try:
        for end in (*ends, *ends):
            with contextlib.suppress(ssl.SSLWantReadError):
                end.do_handshake()
    except ssl.SSLCertVerificationError as error:
        return error.verify_message
    return ""


@each_row("days", [2, -3640, -3700, 0])
def test_a_ca_whose_time_has_not_come_or_is_over_is_renewed(tmp_path: Path, days: int) -> None:
    """The clock was ahead at the first start: no client could connect until it comes to that time."""
    first = identity_in(tmp_path, time.time() + days * DAY_S)
    login, key = client_login(tmp_path, "me", ["us"], time.time() + days * DAY_S)
    second = identity_in(tmp_path, time.time())
    assert (first.token, first.accounts_key) == (second.token, second.accounts_key)
    assert "" == take(second.ca, second)
    assert (first.ca == second.ca) == (days == 0), "a good one stays"
    old, new = (x509.load_pem_x509_certificate(each.ca) for each in (first, second))
    assert (old.subject, old.public_key()) == (new.subject, new.public_key())
    x509.load_pem_x509_certificate(login).verify_directly_issued_by(new)
    assert key


def test_a_ca_of_which_only_the_key_was_written_is_completed(tmp_path: Path) -> None:
    """A start that was killed between the two."""
    first = identity_in(tmp_path, time.time())
    (tmp_path / "ca.crt").unlink()
    second = identity_in(tmp_path, time.time())
    assert ("", "") == (take(second.ca, second), take(first.ca, second))


@each_row("content", [b"", b"\n", b"\xff\xfe", b"two words", b"a\0b"])
def test_a_token_that_is_none_is_refused(tmp_path: Path, content: bytes) -> None:
    """What a full disk leaves would let everybody on the machine in."""
    identity_in(tmp_path, time.time())
    (tmp_path / "token").write_bytes(content)
    with pytest.raises(ConfigError, match="/token' is empty, or is no token; remove it for a new one"):
        identity_in(tmp_path, time.time())
    with pytest.raises(ConfigError, match="a server without a token would serve everybody"):
        Service(a_store(), clock=LoopClock(), token="")


async def test_certificates_are_renewed_while_the_server_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its clients find the new CA in the kubeconfig."""
    monkeypatch.setattr("mooring.apiserver.web.server._RENEW_S", 0.01)
    identity = identity_in(tmp_path / "tls", time.time() - 3700 * DAY_S)
    server = ApiServer(a_store(), identity, clock=LoopClock(), randomness=Random(1))
    await server.start()
    try:
        server.write_kubeconfig(tmp_path / "kubeconfig")
        before = (tmp_path / "kubeconfig").read_text()
        file = tmp_path / "kubeconfig"
        await asyncio.to_thread(eventually, lambda: file.read_text() != before, 10, "a new kubeconfig")
        config = json.loads((tmp_path / "kubeconfig").read_text())
        assert identity.token == config["users"][0]["user"]["token"]
        ca = base64.b64decode(config["clusters"][0]["cluster"]["certificate-authority-data"]).decode()
        port = int(server.url.rpartition(":")[2])
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=ssl.create_default_context(cadata=ca))
        writer.close()
    finally:
        await server.close()


@each_row(("damage", "content"), [("ca.crt", b"junk"), ("ca.key", b"junk"), ("ca.key", None), ("ca.crt", b"")])
def test_a_damaged_ca_is_refused_and_left_alone(tmp_path: Path, damage: str, content: bytes | None) -> None:
    identity_in(tmp_path, NOW)
    if content is None:
        (tmp_path / damage).unlink()
    else:
        (tmp_path / damage).write_bytes(content)
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    with pytest.raises(ConfigError, match=r"are no CA of ours: .*; remove both for new ones"):
        identity_in(tmp_path, NOW)
    assert before == {file.name: file.read_bytes() for file in tmp_path.iterdir()}


@each_row("content", [b"junk", b""])
def test_a_damaged_key_for_tokens_is_refused_at_the_start(tmp_path: Path, content: bytes) -> None:
    identity_in(tmp_path, time.time())
    (tmp_path / "accounts.key").write_bytes(content)
    with pytest.raises(ConfigError, match="the key for service accounts' tokens can't be read"):
        identity_in(tmp_path, time.time())


@each_row(("damage", "other"), [("server.key", "ca.key"), ("server.crt", "ca.crt")])
def test_files_that_do_not_belong_together_are_made_anew(tmp_path: Path, damage: str, other: str) -> None:
    """Each is a good one by itself."""
    before = identity_in(tmp_path, time.time()).certificate.read_bytes()
    (tmp_path / damage).write_bytes((tmp_path / other).read_bytes())
    assert before != identity_in(tmp_path, time.time()).certificate.read_bytes()


def test_a_ca_with_the_key_of_another_is_refused(tmp_path: Path) -> None:
    identity_in(tmp_path, time.time())
    (tmp_path / "ca.key").write_bytes((tmp_path / "server.key").read_bytes())
    with pytest.raises(ConfigError, match="are no CA of ours: the key is another one's; remove both"):
        identity_in(tmp_path, time.time())


def test_a_good_identity_is_known_without_what_makes_certificates(tmp_path: Path) -> None:
    identity_in(tmp_path, time.time())
    code = f"""
import sys
from pathlib import Path
from mooring.apiserver.identity.tls import identity_in
identity_in(Path({str(tmp_path)!r}), {time.time()!r})
print([name for name in sys.modules if name.startswith("cryptography")])
"""
    assert "[]\n" == subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def test_a_folder_that_can_not_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="can't be used"):
        identity_in(tmp_path / "file" / "state", NOW)


def test_a_kubeconfig_holds_all_that_a_client_needs(tmp_path: Path) -> None:
    identity = identity_in(tmp_path, NOW)
    identity.write_kubeconfig(tmp_path / "kubeconfig", "https://127.0.0.1:7443")
    config = json.loads((tmp_path / "kubeconfig").read_text())
    cluster = config["clusters"][0]["cluster"]
    assert "https://127.0.0.1:7443" == cluster["server"]
    ssl.create_default_context(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())
    assert identity.token == config["users"][0]["user"]["token"]
    assert identity.token not in repr(identity)


def test_a_kubeconfig_is_written_only_when_it_changes(tmp_path: Path) -> None:
    """What its owner has added stays, in the form in which kubectl writes it; a link stays one."""
    identity, target = identity_in(tmp_path / "tls", NOW), tmp_path / "elsewhere" / "config"
    target.parent.mkdir()
    path = tmp_path / "kubeconfig"
    path.symlink_to(target)
    identity.write_kubeconfig(path, "https://127.0.0.1:1")
    config = json.loads(target.read_text())
    config["contexts"][0]["context"]["namespace"] = "mine"
    target.write_text(yaml.safe_dump(config))
    identity.write_kubeconfig(path, "https://127.0.0.1:1")
    assert "namespace: mine" in target.read_text()
    target.chmod(0o644)
    identity.write_kubeconfig(path, "https://127.0.0.1:1")
    assert 0o600 == target.stat().st_mode & 0o777
    identity.write_kubeconfig(path, "https://127.0.0.1:2")
    assert "https://127.0.0.1:2" == json.loads(path.read_text())["clusters"][0]["cluster"]["server"]
    assert path.is_symlink()
    assert [target] == list(target.parent.iterdir())


@each_row(
    "text",
    [
        '{"clusters": [], "users": [{"name": "me", "user": {"client-key-data": "eA=="}}]}',
        "clusters: [{name: mooring}, {name: production}]",
        "users: [{name: mooring}, {name: me}]",
        "{",
        "\0",
    ],
)
def test_a_kubeconfig_with_credentials_of_others_stays(tmp_path: Path, text: str) -> None:
    (tmp_path / "config").write_text(text)
    with pytest.raises(ConfigError, match="is there, and no server like this one has written it: give another file"):
        identity_in(tmp_path / "tls", NOW).write_kubeconfig(tmp_path / "config", "https://127.0.0.1:1")
    assert text == (tmp_path / "config").read_text()
