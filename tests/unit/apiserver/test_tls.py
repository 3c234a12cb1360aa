"""The server's identity: made once, kept, private, renewed."""

from __future__ import annotations

import base64
import json
import ssl
import subprocess
import sys
import time
from pathlib import Path

import pytest
from cryptography import x509

from mooring.apiserver.identity.tls import identity_in
from mooring.base.errors import ConfigError

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


@pytest.mark.parametrize("days", [340, 400, 2000])
def test_the_servers_certificate_is_renewed_before_it_runs_out(tmp_path: Path, days: int) -> None:
    first = identity_in(tmp_path, NOW)
    old = first.certificate.read_bytes()
    second = identity_in(tmp_path, NOW + days * DAY_S)
    assert old != second.certificate.read_bytes()
    assert first.ca == second.ca


@pytest.mark.parametrize("damage", ["server.crt", "server.key"])
def test_a_damaged_server_certificate_is_made_anew(tmp_path: Path, damage: str) -> None:
    identity_in(tmp_path, NOW)
    (tmp_path / damage).write_text("junk")
    identity_in(tmp_path, NOW).context()


@pytest.mark.parametrize("damage", ["ca.crt", "ca.key"])
@pytest.mark.parametrize("content", [b"junk", None])
def test_a_damaged_ca_is_refused_and_left_alone(tmp_path: Path, damage: str, content: bytes | None) -> None:
    identity_in(tmp_path, NOW)
    if content is None:
        (tmp_path / damage).unlink()
    else:
        (tmp_path / damage).write_bytes(content)
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    with pytest.raises(ConfigError, match="ca"):
        identity_in(tmp_path, NOW)
    assert before == {file.name: file.read_bytes() for file in tmp_path.iterdir()}


@pytest.mark.parametrize("content", [b"junk", b""])
def test_a_damaged_key_for_tokens_is_refused_at_the_start(tmp_path: Path, content: bytes) -> None:
    identity_in(tmp_path, time.time())
    (tmp_path / "accounts.key").write_bytes(content)
    with pytest.raises(ConfigError, match="the key for service accounts' tokens can't be read"):
        identity_in(tmp_path, time.time())


@pytest.mark.parametrize(("damage", "other"), [("server.key", "ca.key"), ("server.crt", "ca.crt")])
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
