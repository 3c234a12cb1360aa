"""The certificates of the server's folder, made: its CA, its own, and those that clients show. This is what needs
cryptography.
"""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from mooring.apiserver.identity.files import ACCOUNTS_KEY, CA, CA_KEY, CERTIFICATE, KEY, RENEWED_BEFORE_S, write_private
from mooring.apiserver.identity.tokens import TokenKey
from mooring.base.errors import ConfigError

_RENEWED_BEFORE: Final = datetime.timedelta(seconds=RENEWED_BEFORE_S)
_CA_LIFE: Final = datetime.timedelta(days=3650)
_SERVER_LIFE: Final = datetime.timedelta(days=365)
_SKEW: Final = datetime.timedelta(hours=1)
_NAMES: Final = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
_ADDRESSES: Final = ("127.0.0.1", "::1")


def complete(folder: Path, now: float, *, renews: bool) -> None:
    """Makes what is missing; renews: also the server's certificate. Raises ConfigError for a CA, or a key for service
    accounts' tokens, that can't be used.
    """
    moment = datetime.datetime.fromtimestamp(now, datetime.UTC)
    if renews:
        _make_server_certificate(folder, *_authority(folder, moment), moment)
    if not (folder / ACCOUNTS_KEY).exists():
        write_private(folder / ACCOUNTS_KEY, _pem(ec.generate_private_key(ec.SECP256R1())))
    TokenKey((folder / ACCOUNTS_KEY).read_bytes())


def client_login(folder: Path, user: str, groups: Iterable[str], now: float) -> tuple[bytes, bytes]:
    """A client certificate for a user, valid for a year, and its key, in PEM. folder: as for `tls.identity_in`. Raises
    ConfigError.
    """
    moment = datetime.datetime.fromtimestamp(now, datetime.UTC)
    authority, authority_key = _authority(folder, moment)
    parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    name = x509.Name([*parts, x509.NameAttribute(NameOID.COMMON_NAME, user)])
    return _issued(name, ExtendedKeyUsageOID.CLIENT_AUTH, [], authority, authority_key, moment)


def _authority(folder: Path, moment: datetime.datetime) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    """The CA, and its key. One that runs out, or is not yet valid, gets a new certificate for its name and key: what
    it has signed stays good.
    """
    certificate, key = folder / CA, folder / CA_KEY
    try:
        if not key.exists():
            if certificate.exists():
                raise ValueError("the key is missing")
            write_private(key, _pem(ec.generate_private_key(ec.SECP256R1())))
        loaded = serialization.load_pem_private_key(key.read_bytes(), None)
        if not isinstance(loaded, ec.EllipticCurvePrivateKey):
            raise ValueError("the key is of another kind")
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "mooring-ca")])
        if certificate.exists():
            found = x509.load_pem_x509_certificate(certificate.read_bytes())
            if found.public_key() != loaded.public_key():
                raise ValueError("the key is another one's")
            if found.not_valid_before_utc <= moment <= found.not_valid_after_utc - _RENEWED_BEFORE:
                return found, loaded
            name = found.subject
    except (ValueError, TypeError) as error:
        raise ConfigError(
            f"'{certificate}' and '{key}' are no CA of ours: {error}; remove both for new ones"
        ) from error
    builder = _builder(name, name, loaded.public_key(), moment, _CA_LIFE)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(loaded.public_key()), critical=False)
    builder = builder.add_extension(_key_usage(signs_certificates=True), critical=True)
    made = builder.sign(loaded, hashes.SHA256())
    write_private(certificate, made.public_bytes(serialization.Encoding.PEM))
    return made, loaded


def _make_server_certificate(
    folder: Path, authority: x509.Certificate, authority_key: ec.EllipticCurvePrivateKey, moment: datetime.datetime
) -> None:
    places: list[x509.GeneralName] = [x509.DNSName(text) for text in _NAMES]
    places += [x509.IPAddress(ipaddress.ip_address(text)) for text in _ADDRESSES]
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "mooring-apiserver")])
    certificate, key = _issued(name, ExtendedKeyUsageOID.SERVER_AUTH, places, authority, authority_key, moment)
    write_private(folder / KEY, key)
    write_private(folder / CERTIFICATE, certificate)


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
    builder = builder.add_extension(
        x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False
    )
    builder = builder.add_extension(_key_usage(signs_certificates=False), critical=True)
    return builder.sign(authority_key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM), _pem(key)


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    moment: datetime.datetime,
    life: datetime.timedelta,
) -> x509.CertificateBuilder:
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key)
    return (
        builder.serial_number(x509.random_serial_number())
        .not_valid_before(moment - _SKEW)
        .not_valid_after(moment + life)
    )


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
