"""The server's CA, certificate, token and kubeconfig, in a folder for its owner alone. An expired server certificate is replaced."""

from __future__ import annotations

import dataclasses
import datetime
import ipaddress
import json
import os
import secrets
import ssl
import tempfile
from base64 import b64encode
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from mooring.apiserver.users import RequestUser
from mooring.base import ownership
from mooring.base.errors import ConfigError

_CA_LIFE: Final = datetime.timedelta(days=3650)
_SERVER_LIFE: Final = datetime.timedelta(days=365)
_RENEWED_BEFORE: Final = datetime.timedelta(days=30)
_SKEW: Final = datetime.timedelta(hours=1)
_NAMES: Final = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
_ADDRESSES: Final = ("127.0.0.1", "::1")


@dataclasses.dataclass(frozen=True, slots=True)
class ServerIdentity:
    """ca: the PEM that clients trust. certificate, key: files of the server. accounts_key: what signs the tokens of service accounts."""

    ca: bytes
    certificate: Path
    key: Path
    token: str = dataclasses.field(repr=False)
    accounts_key: bytes = dataclasses.field(repr=False)

    def context(self) -> ssl.SSLContext:
        """For the listening socket. A client may show a certificate; one that our CA has not signed ends the handshake."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        context.load_cert_chain(self.certificate, self.key)
        context.load_verify_locations(cadata=self.ca.decode())
        context.verify_mode = ssl.CERT_OPTIONAL
        context.options |= ssl.OP_NO_RENEGOTIATION
        context.num_tickets = 0  # (nobody resumes: clients keep their connections)
        return context

    def write_kubeconfig(self, path: Path, server: str) -> None:
        """server: https://host:port. Others see the whole file or none; only the owner can read it."""
        cluster = {"server": server, "certificate-authority-data": b64encode(self.ca).decode()}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "mooring", "cluster": cluster}],
            "users": [{"name": "mooring", "user": {"token": self.token}}],
            "contexts": [{"name": "mooring", "context": {"cluster": "mooring", "user": "mooring"}}],
            "current-context": "mooring",
        }
        _write(path, json.dumps(config, indent=2).encode() + b"\n")


def user_of(certificate: Mapping[str, Any]) -> RequestUser:
    """The user of a certificate (as `ssl` gives it): its common name, and the organizations as groups."""
    parts = [part for group in certificate.get("subject", ()) for part in group]
    names = [value for name, value in parts if name == "commonName"]
    groups = tuple(value for name, value in parts if name == "organizationName")
    return RequestUser(names[-1] if names else "", (*groups, "system:authenticated"))


def identity_in(folder: Path, now: float) -> ServerIdentity:
    """The identity in the folder; missing files are made. now: epoch seconds.

    Raises ConfigError for a file that can't be read or used, or that another user could have written. (The folders above are looked at
    where a program starts: `base/ownership.py`.)
    """
    moment = datetime.datetime.fromtimestamp(now, datetime.UTC)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if reason := ownership.danger_in(folder):
            raise ConfigError(f"the server's identity in '{folder}' can't be trusted: {reason}; remove the folder for a new one")
        authority, authority_key = _authority(folder, moment)
        certificate, key = folder / "server.crt", folder / "server.key"
        if not _is_good(certificate, key, authority, moment):
            _make_server_certificate(folder, authority, authority_key, moment)
        token = folder / "token"
        if not token.exists():
            _write(token, secrets.token_urlsafe(32).encode())
        accounts = folder / "accounts.key"
        if not accounts.exists():
            _write(accounts, _pem(ec.generate_private_key(ec.SECP256R1())))
        return ServerIdentity((folder / "ca.crt").read_bytes(), certificate, key, token.read_text().strip(), accounts.read_bytes())
    except OSError as error:
        raise ConfigError(f"the server's identity in '{folder}' can't be used: {error}") from error


def client_login(folder: Path, user: str, groups: Iterable[str], now: float) -> tuple[bytes, bytes]:
    """A client certificate for a user, valid for a year, and its key, in PEM. folder: as for `identity_in`. Raises ConfigError."""
    moment = datetime.datetime.fromtimestamp(now, datetime.UTC)
    authority, authority_key = _authority(folder, moment)
    parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    name = x509.Name([*parts, x509.NameAttribute(NameOID.COMMON_NAME, user)])
    return _issued(name, ExtendedKeyUsageOID.CLIENT_AUTH, [], authority, authority_key, moment)


def _authority(folder: Path, moment: datetime.datetime) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    certificate, key = folder / "ca.crt", folder / "ca.key"
    if not certificate.exists() and not key.exists():
        made = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "mooring-ca")])
        builder = _builder(name, name, made.public_key(), moment, _CA_LIFE)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(made.public_key()), critical=False)
        builder = builder.add_extension(_key_usage(signs_certificates=True), critical=True)
        _write(key, _pem(made))
        _write(certificate, builder.sign(made, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    try:
        loaded = serialization.load_pem_private_key(key.read_bytes(), None)
        assert isinstance(loaded, ec.EllipticCurvePrivateKey)
        return x509.load_pem_x509_certificate(certificate.read_bytes()), loaded
    except (ValueError, TypeError, AssertionError) as error:
        raise ConfigError(f"'{certificate}' and '{key}' are no CA of ours: {error}; remove both for new ones") from error


def _is_good(certificate: Path, key: Path, authority: x509.Certificate, moment: datetime.datetime) -> bool:
    """True for a certificate of this CA, with its key, that is valid for a while."""
    if not certificate.exists() or not key.exists():
        return False
    try:
        found = x509.load_pem_x509_certificate(certificate.read_bytes())
        found.verify_directly_issued_by(authority)
        own = serialization.load_pem_private_key(key.read_bytes(), None)
    except (ValueError, TypeError, InvalidSignature):
        return False
    fits = isinstance(own, ec.EllipticCurvePrivateKey) and own.public_key() == found.public_key()
    return fits and found.not_valid_before_utc <= moment <= found.not_valid_after_utc - _RENEWED_BEFORE


def _make_server_certificate(
    folder: Path, authority: x509.Certificate, authority_key: ec.EllipticCurvePrivateKey, moment: datetime.datetime
) -> None:
    places: list[x509.GeneralName] = [x509.DNSName(text) for text in _NAMES]
    places += [x509.IPAddress(ipaddress.ip_address(text)) for text in _ADDRESSES]
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "mooring-apiserver")])
    certificate, key = _issued(name, ExtendedKeyUsageOID.SERVER_AUTH, places, authority, authority_key, moment)
    _write(folder / "server.key", key)
    _write(folder / "server.crt", certificate)


def _issued(
    name: x509.Name,
    usage: x509.ObjectIdentifier,
    places: list[x509.GeneralName],
    authority: x509.Certificate,
    authority_key: ec.EllipticCurvePrivateKey,
    moment: datetime.datetime,
) -> tuple[bytes, bytes]:
    """A certificate for one use and its key, in PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    builder = _builder(name, authority.subject, key.public_key(), moment, _SERVER_LIFE)
    if places:
        builder = builder.add_extension(x509.SubjectAlternativeName(places), critical=False)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
    builder = builder.add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False)
    builder = builder.add_extension(_key_usage(signs_certificates=False), critical=True)
    return builder.sign(authority_key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM), _pem(key)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, moment: datetime.datetime, life: datetime.timedelta
) -> x509.CertificateBuilder:
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key)
    return builder.serial_number(x509.random_serial_number()).not_valid_before(moment - _SKEW).not_valid_after(moment + life)


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    return key.private_bytes(encoding, form, serialization.NoEncryption())


def _write(path: Path, data: bytes) -> None:
    """Whole or not at all, for the owner alone."""
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:  # (made with mode 0600)
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    Path(file.name).replace(path)
