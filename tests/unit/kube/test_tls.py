"""TLS contexts follow their files."""

from __future__ import annotations

import os
import ssl
from pathlib import Path

import pytest

from mooring.base.errors import ConfigError
from mooring.kube.client.config import Pem, Tls
from mooring.kube.client.tls import TlsContexts, client_context
from tests.support.rows import each_row
from tests.unit.kube.certificates import authority_pem, client_pem, other_authority
from tests.unit.kube.instant_clock import InstantClock


def file_of(path: Path, content: bytes) -> Pem:
    path.write_bytes(content)
    return Pem("here", path=str(path))


def trusted(context: ssl.SSLContext) -> set[bytes]:
    return set(context.get_ca_certs(binary_form=True))


def test_a_changed_authority_is_used_for_new_connections(tmp_path: Path) -> None:
    clock = InstantClock()
    contexts = TlsContexts(Tls(file_of(tmp_path / "ca", authority_pem())), clock)
    first = contexts.current()
    file_of(tmp_path / "ca", authority_pem() + other_authority().cert_pem.bytes())
    clock.pass_s(59)
    assert first is contexts.current()
    clock.pass_s(1)
    second = contexts.current()
    assert (1, 2) == (len(trusted(first)), len(trusted(second)))
    clock.pass_s(60)
    assert second is contexts.current()


@each_row("content", [None, b"", b"nonsense"])
def test_a_broken_authority_leaves_the_former_one(
    tmp_path: Path, content: bytes | None, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = InstantClock()
    pem = file_of(tmp_path / "ca", authority_pem())
    contexts = TlsContexts(Tls(pem), clock)
    first = contexts.current()
    if content is None:
        os.unlink(pem.path)
    else:
        file_of(tmp_path / "ca", content)
    clock.pass_s(60)
    assert first is contexts.current()
    assert pem.path in capsys.readouterr().err
    file_of(tmp_path / "ca", authority_pem())
    clock.pass_s(60)
    assert first is not contexts.current()


def test_a_bundle_may_have_comments_in_any_language() -> None:
    bundle = "# Prüfstelle\n".encode() + authority_pem() + b"\xff\xfe\n" + other_authority().cert_pem.bytes()
    assert 2 == len(trusted(client_context(Tls(Pem("here", data=bundle)))))


def test_an_intermediate_authority_may_be_the_anchor() -> None:
    """Go's client trusts whatever is in the file; many clusters hand out an intermediate alone."""
    assert client_context(Tls()).verify_flags & ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN
    assert not client_context(Tls()).verify_flags & ssl.VerifyFlags.VERIFY_X509_STRICT


def test_keys_leave_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second way is for systems without memory files."""
    certificate, key = (Pem("here", data=data) for data in client_pem())
    before = set(os.listdir("/proc/self/fd"))
    client_context(Tls(certificate=certificate, key=key))
    monkeypatch.delattr(os, "memfd_create")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    client_context(Tls(certificate=certificate, key=key))
    assert list(tmp_path.iterdir()) == []
    assert len(before) == len(os.listdir("/proc/self/fd"))


def test_a_plugin_s_certificate_that_is_none_is_refused() -> None:
    contexts = TlsContexts(Tls(insecure=True), InstantClock())
    before = contexts.current()
    with pytest.raises(ConfigError, match="from the plugin: holds no certificate"):
        contexts.use_certificate(Pem("from the plugin", data=b"cert"), Pem("from the plugin", data=b"key"))
    assert before is contexts.current()
