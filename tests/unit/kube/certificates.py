"""Certificates for tests: one authority, a server and a client, made once."""

from __future__ import annotations

import functools
import ssl

import trustme


@functools.cache
def authority() -> trustme.CA:
    return trustme.CA()


@functools.cache
def other_authority() -> trustme.CA:
    return trustme.CA()


def authority_pem() -> bytes:
    return authority().cert_pem.bytes()


@functools.cache
def client_pem(name: str = "client@example.com") -> tuple[bytes, bytes]:
    """Certificate chain and key."""
    issued = authority().issue_cert(name)
    return b"".join(blob.bytes() for blob in issued.cert_chain_pems), issued.private_key_pem.bytes()


def server_context(*names: str, ask_client: bool = False) -> ssl.SSLContext:
    """names: what the server's certificate is for; 127.0.0.1 without any."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _issued(names or ("127.0.0.1",)).configure_cert(context)
    if ask_client:
        context.verify_mode = ssl.CERT_REQUIRED
        authority().configure_trust(context)
    return context


@functools.cache
def _issued(names: tuple[str, ...]) -> trustme.LeafCert:
    return authority().issue_cert(*names)
