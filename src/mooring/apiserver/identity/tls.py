"""The server's CA, certificate, token and kubeconfig, in a folder for its owner alone. An expired server certificate is replaced."""

from __future__ import annotations

import dataclasses
import json
import secrets
import ssl
from base64 import b64encode
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from mooring.apiserver.identity.files import ACCOUNTS_KEY, CA, CA_KEY, CERTIFICATE, KEY, TOKEN, write_private
from mooring.apiserver.users import LateTokens, RequestUser, Tokens
from mooring.base import ownership
from mooring.base.errors import ConfigError

_RENEWED_BEFORE_S: Final = 30 * 86_400.0
_NO_CHECK_TIME: Final = ssl.VerifyFlags(0x200000)  # (OpenSSL's X509_V_FLAG_NO_CHECK_TIME; the clock may be another one)


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
        write_private(path, json.dumps(config, indent=2).encode() + b"\n")


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
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if reason := ownership.danger_in(folder):
            raise ConfigError(
                f"the server's identity in '{folder}' can't be trusted: {reason}; remove the folder for a new one"
            )
        is_good = _is_served_well(folder, now)
        if not is_good or not _is_key_of_our_kind(folder / ACCOUNTS_KEY, folder / CERTIFICATE):
            from mooring.apiserver.identity.certificates import complete  # noqa: PLC0415 (10 MiB and 50 ms, and needed once a year)

            complete(folder, now, renews=not is_good)
        token = folder / TOKEN
        if not token.exists():
            write_private(token, secrets.token_urlsafe(32).encode())
        ca, accounts = (folder / CA).read_bytes(), (folder / ACCOUNTS_KEY).read_bytes()
        return ServerIdentity(ca, folder / CERTIFICATE, folder / KEY, token.read_text().strip(), accounts)
    except OSError as error:
        raise ConfigError(f"the server's identity in '{folder}' can't be used: {error}") from error


def signer_of(identity: ServerIdentity) -> Tokens:
    """Signs the tokens of service accounts."""

    def make() -> Tokens:
        from mooring.apiserver.identity.tokens import TokenKey  # noqa: PLC0415 (10 MiB, and few servers are asked for a token)

        return TokenKey(identity.accounts_key)

    return LateTokens(make)


def _is_served_well(folder: Path, now: float) -> bool:
    """True where each certificate has its key, and a client that trusts the CA takes the server's, at `now` and for a while.

    TLS itself is asked, by a handshake in memory.
    """
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.verify_flags |= _NO_CHECK_TIME
    try:
        server.load_cert_chain(folder / CA, folder / CA_KEY, _no_password)
        server.load_cert_chain(folder / CERTIFICATE, folder / KEY, _no_password)
        client.load_verify_locations(folder / CA)
        shown = _shown_by(server, client)
    except (OSError, ValueError):  # (what OpenSSL refuses is an OSError, too)
        return False
    since, until = (ssl.cert_time_to_seconds(str(shown.get(name))) for name in ("notBefore", "notAfter"))
    return since <= now <= until - _RENEWED_BEFORE_S


def _shown_by(server: ssl.SSLContext, client: ssl.SSLContext) -> dict[str, Any]:
    """The server's certificate as the client has verified it. Raises SSLError where the client refuses it."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_server, server_hostname="localhost"),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    for end in (*ends, *ends):
        try:
            end.do_handshake()
        except ssl.SSLWantReadError:
            continue
    return ends[0].getpeercert() or {}


def _is_key_of_our_kind(key: Path, certificate: Path) -> bool:
    """True for a private key on the curve of the certificate's: of such a one OpenSSL says that its values are others, and nothing else."""
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, _no_password)
    except ssl.SSLError as error:
        return error.reason == "KEY_VALUES_MISMATCH"
    except FileNotFoundError:
        return False
    return True


def _no_password() -> str:
    """An encrypted key is none of ours, and nobody is there to be asked."""
    return ""
