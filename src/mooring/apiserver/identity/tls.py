"""The server's CA, certificate, token and kubeconfig, in a folder for its owner alone. Certificates are renewed before
they run out, and when the clock has been set back to before they begin.
"""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import secrets
import ssl
from base64 import b64encode
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from mooring.apiserver.identity.files import (
    ACCOUNTS_KEY,
    CA,
    CA_KEY,
    CERTIFICATE,
    KEY,
    RENEWED_BEFORE_S,
    TOKEN,
    write_private,
)
from mooring.apiserver.users import LateTokens, RequestUser, Tokens
from mooring.base import ownership
from mooring.base.border import refused_as
from mooring.base.errors import ConfigError
from mooring.base.folders import refusal
from mooring.kube.client.kubefile import KubeFile, read_kube_file

_NAME: Final = "mooring"
"""The name of the cluster, the user and the context in a kubeconfig."""
_NO_CHECK_TIME: Final = ssl.VerifyFlags(0x200000)  # (OpenSSL's X509_V_FLAG_NO_CHECK_TIME; the clock may be another one)


@dataclasses.dataclass(frozen=True, slots=True)
class ServerIdentity:
    """ca: the PEM that clients trust. certificate, key: files of the server. accounts_key: what signs the tokens of
    service accounts.
    """

    ca: bytes
    certificate: Path
    key: Path
    #: From when to when clients take the certificates (epoch seconds), less the time in which they are renewed.
    good: tuple[float, float]
    token: str = dataclasses.field(repr=False)
    accounts_key: bytes = dataclasses.field(repr=False)

    def context(self) -> ssl.SSLContext:
        """For the listening socket. A client may show a certificate; one that our CA has not signed ends the
        handshake.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        self.load_into(context)
        context.verify_mode = ssl.CERT_OPTIONAL
        context.options |= ssl.OP_NO_RENEGOTIATION
        context.num_tickets = 0  # (nobody resumes: clients keep their connections)
        return context

    def load_into(self, context: ssl.SSLContext) -> None:
        """From now on connections of the context show these certificates."""
        context.load_cert_chain(self.certificate, self.key)
        context.load_verify_locations(cadata=self.ca.decode())

    def renewed(self, now: float) -> ServerIdentity:
        """The same user and token with certificates that are good now; itself where they are. Raises ConfigError."""
        if self.good[0] <= now <= self.good[1]:
            return self
        return dataclasses.replace(identity_in(self.certificate.parent, now), token=self.token)

    def write_kubeconfig(self, path: Path, server: str) -> None:
        """server: https://host:port. Others see the whole file or none; only the owner can read it. Raises ConfigError.

        A kubeconfig of other clusters stays: it may be the only copy of their keys. So does one that says the same,
        with what its owner has added.
        """
        cluster = {"server": server, "certificate-authority-data": b64encode(self.ca).decode()}
        user, context = {"token": self.token}, {"cluster": _NAME, "user": _NAME}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": _NAME, "cluster": cluster}],
            "users": [{"name": _NAME, "user": user}],
            "contexts": [{"name": _NAME, "context": context}],
            "current-context": _NAME,
        }
        file = Path(os.path.realpath(path))  # (a link stays one)
        with refused_as(f"kubeconfig '{path}' can't be written"):
            found = _found_at(file)
            if found is not None and {*found.clusters, *found.users} <= {_NAME}:
                entries = [found.clusters.get(_NAME), found.users.get(_NAME), found.contexts.get(_NAME)]
                is_same = [entry and {**entry.values, "namespace": None} for entry in entries] == [
                    {**values, "namespace": None} for values in (cluster, user, context)
                ]
                if is_same and not file.stat().st_mode & 0o077:
                    return
            elif found is not None or (file.exists() and (not file.is_file() or file.stat().st_size)):
                raise ConfigError(
                    f"kubeconfig '{path}' is there, and no server like this one has written it: give another file"
                )
            write_private(file, json.dumps(config, indent=2).encode() + b"\n")


def _found_at(path: Path) -> KubeFile | None:
    """The kubeconfig that is there; None for none, and for what can't be read as one. Raises OSError for a folder."""
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not path.is_file():  # a device or a pipe is nothing to be read
        return None
    try:
        return read_kube_file(str(path))
    except ConfigError:
        return None


def user_of(certificate: Mapping[str, Any]) -> RequestUser:
    """The user of a certificate (as `ssl` gives it): its common name, and the organizations as groups."""
    parts = [part for group in certificate.get("subject", ()) for part in group]
    names = [value for name, value in parts if name == "commonName"]
    groups = tuple(value for name, value in parts if name == "organizationName")
    return RequestUser(names[-1] if names else "", (*groups, "system:authenticated"))


def identity_in(folder: Path, now: float) -> ServerIdentity:
    """The identity in the folder; missing files are made. now: epoch seconds.

    Raises ConfigError for a file that can't be read or used, or that another user could have written. (The folders
    above are looked at where a program starts: `base/ownership.py`.)
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if danger := ownership.danger_in(folder):
            raise ConfigError(
                f"the server's identity in '{folder}' can't be trusted: {danger}; remove the folder for a new one"
            )
        good = _good_time(folder)
        is_good = good is not None and good[0] <= now <= good[1]
        if not is_good or not _is_key_of_our_kind(folder / ACCOUNTS_KEY, folder / CERTIFICATE):
            from mooring.apiserver.identity.certificates import complete  # noqa: PLC0415 (10 MiB and 50 ms, and needed once a year)

            complete(folder, now, renews=not is_good)
            good = _good_time(folder)
        if good is None:
            raise ConfigError(f"'{folder / CA}' is no CA that clients take; remove it, with its key, for a new one")
        token = folder / TOKEN
        if not token.exists():
            write_private(token, secrets.token_urlsafe(32).encode())
        words = token.read_bytes().split()
        if len(words) != 1 or not words[0].isascii() or not words[0].decode().isprintable():
            raise ConfigError(f"'{token}' is empty, or is no token; remove it for a new one")
        ca, accounts = (folder / CA).read_bytes(), (folder / ACCOUNTS_KEY).read_bytes()
        return ServerIdentity(ca, folder / CERTIFICATE, folder / KEY, good, words[0].decode(), accounts)
    except OSError as error:
        raise refusal(folder, error, "the server's identity in") from error


def signer_of(identity: ServerIdentity) -> Tokens:
    """Signs the tokens of service accounts."""

    def make() -> Tokens:
        from mooring.apiserver.identity.tokens import TokenKey  # noqa: PLC0415 (10 MiB, and few servers are asked for a token)

        return TokenKey(identity.accounts_key)

    return LateTokens(make)


def _good_time(folder: Path) -> tuple[float, float] | None:
    """From when to when (epoch seconds) a client that trusts the CA takes the server's certificate, less the time in
    which both are renewed. None where it never does, or a certificate lacks its key.

    TLS itself is asked, by a handshake in memory.
    """
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.verify_flags |= _NO_CHECK_TIME
    try:
        server.load_cert_chain(folder / CA, folder / CA_KEY, _no_password)
        server.load_cert_chain(folder / CERTIFICATE, folder / KEY, _no_password)
        client.load_verify_locations(folder / CA)
        certificates = [_shown_by(server, client), *client.get_ca_certs()]
    except (OSError, ValueError):  # (what OpenSSL refuses is an OSError, too)
        return None
    since, until = (
        [ssl.cert_time_to_seconds(str(one.get(name))) for one in certificates] for name in ("notBefore", "notAfter")
    )
    return max(since), min(until) - RENEWED_BEFORE_S


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
    """True for a private key on the curve of the certificate's: of such a one OpenSSL says that its values are others,
    and nothing else.
    """
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
