"""TLS towards the API server: contexts from PEM text, renewed when the files change.

OpenSSL's messages name neither the file nor the remedy, so every step names its input. Inline keys pass through an
anonymous memory file: a container's file system may be read-only, and nothing may stay behind.
"""

from __future__ import annotations

import contextlib
import os
import re
import ssl
import tempfile
from collections.abc import Iterator
from typing import Final

from mooring.base.clock import Clock, Instant
from mooring.base.errors import ConfigError
from mooring.base.log import logger
from mooring.kube.client.config import Pem, Tls

_log = logger(__name__)

LOOK_AGAIN_S: Final = 60.0
"""How often the files are looked at; a rotated certificate is valid long before its predecessor ends."""

_CERTIFICATE: Final = re.compile(rb"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)
_Stamp = tuple[tuple[int, int, int], ...]


class TlsContexts:
    """The context for new connections. Older connections keep theirs until they are closed."""

    def __init__(self, tls: Tls, clock: Clock) -> None:
        """Raises ConfigError."""
        self._tls = tls
        self._clock = clock
        self._looked_at: Instant | None = None
        self._stamp = _stamp(tls)
        self._context = client_context(tls)

    def current(self) -> ssl.SSLContext:
        """The context for a connection made now. Files that changed into something unusable leave it as it was."""
        now = self._clock.now()
        if self._looked_at is None:
            self._looked_at = now
        elif now - self._looked_at >= LOOK_AGAIN_S:
            self._looked_at = now
            self._renew()
        return self._context

    def use_certificate(self, certificate: Pem, key: Pem) -> None:
        """From now on this is the client's certificate. Raises ConfigError."""
        tls = Tls(self._tls.authority, certificate, key, self._tls.server_name, self._tls.insecure)
        self._context = client_context(tls)
        self._tls, self._stamp = tls, _stamp(tls)

    def _renew(self) -> None:
        stamp = _stamp(self._tls)
        if stamp == self._stamp:
            return
        try:
            self._context = client_context(self._tls)
        except ConfigError as error:
            _log.error("Changed TLS files can't be used, the former ones stay in use", error=error)
        else:
            self._stamp = stamp
            _log.info(2, "TLS files changed, new connections use them")


def client_context(tls: Tls) -> ssl.SSLContext:
    """The client's TLS context. Raises ConfigError for unusable PEM text.

    Differs from ssl.create_default_context as Go's client does: a CA without the key identifiers of RFC 5280 is
    accepted (many clusters have one), an intermediate CA may be the anchor, and a certificate's common name never
    counts.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN
    context.hostname_checks_common_name = False
    context.set_alpn_protocols(["http/1.1"])
    if tls.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif tls.authority is None:
        context.load_default_certs()
    else:
        _trust(context, tls.authority)
    if tls.certificate is not None and tls.key is not None:
        _show(context, tls.certificate, tls.key)
    return context


def tls_reason(error: BaseException) -> str:
    """The TLS problem and its remedy, "" for another error. Its causes are examined, too."""
    cause: BaseException | None = error
    for _ in range(8):
        if cause is None:
            break
        if (
            isinstance(cause, ssl.SSLError) and type(cause).__module__ == "ssl"
        ):  # (an HTTP library's own may be SSLErrors without a reason)
            return _explained(cause)
        cause = getattr(cause, "os_error", None) or cause.__cause__ or cause.__context__
    return ""


def _explained(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        if "ismatch" in error.verify_message:  # OpenSSL: Hostname mismatch, IP address mismatch
            return (
                f"the server's certificate is for another name: {error.verify_message}; set tls-server-name to a "
                "name that it is for"
            )
        return f"the server's certificate is not trusted: {error.verify_message}; check certificate-authority"
    reason = (error.reason or "").replace("_", " ").lower()
    if "wrong version number" in reason or "record layer failure" in reason or "http request" in reason:
        return "the server does not speak TLS; is it an http:// address?"
    if "alert" in reason:
        return f"the server broke off ({reason}); check the client certificate"
    return reason or "the connection broke during the handshake"


def _trust(context: ssl.SSLContext, authority: Pem) -> None:
    blocks = _CERTIFICATE.findall(authority.read())
    if not blocks:
        raise ConfigError(
            f"{_source(authority)}: holds no certificate; expected PEM text (-----BEGIN CERTIFICATE-----)"
        )
    try:
        context.load_verify_locations(cadata=b"\n".join(blocks).decode("ascii"))
    except (ssl.SSLError, ValueError) as error:
        raise ConfigError(f"{_source(authority)}: holds a certificate that can't be read: {_reason(error)}") from None


def _show(context: ssl.SSLContext, certificate: Pem, key: Pem) -> None:
    certificate_text, key_text = certificate.read(), key.read()
    if not _CERTIFICATE.search(certificate_text):
        raise ConfigError(
            f"{_source(certificate)}: holds no certificate; expected PEM text (-----BEGIN CERTIFICATE-----)"
        )
    if b"PRIVATE KEY-----" not in key_text:
        raise ConfigError(f"{_source(key)}: holds no private key; expected PEM text (-----BEGIN PRIVATE KEY-----)")
    if b"ENCRYPTED" in key_text:
        raise ConfigError(f"{_source(key)}: the key is encrypted; give one without a passphrase, or use an exec plugin")
    with _memory_file(certificate_text) as certificate_path, _memory_file(key_text) as key_path:
        try:
            context.load_cert_chain(certificate_path, key_path, password=_no_passphrase)
        except (ssl.SSLError, ValueError) as error:
            if isinstance(error, ssl.SSLError) and error.reason == "KEY_VALUES_MISMATCH":
                raise ConfigError(
                    f"{_source(key)}: is not the key of the certificate in {_source(certificate)}"
                ) from None
            raise ConfigError(
                f"{_source(certificate)} with {_source(key)}: can't be used as certificate and key: {_reason(error)}"
            ) from None


@contextlib.contextmanager
def _memory_file(content: bytes) -> Iterator[str]:
    """A path under which OpenSSL reads these bytes; on Linux nothing touches a disk."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("pem", os.MFD_CLOEXEC)
        path, leftover = f"/proc/self/fd/{descriptor}", ""
    else:
        descriptor, path = tempfile.mkstemp(prefix="mooring-")
        leftover = path
    try:
        with open(descriptor, "wb", closefd=False) as file:
            file.write(content)
        yield path
    finally:
        os.close(descriptor)
        if leftover:
            os.unlink(leftover)


def _no_passphrase() -> str:
    """Keeps OpenSSL from asking on the terminal for a passphrase."""
    return ""


def _stamp(tls: Tls) -> _Stamp:
    """A value that changes when one of the files does."""
    return tuple(
        _file_stamp(pem.path) for pem in (tls.authority, tls.certificate, tls.key) if pem is not None and pem.path
    )


def _file_stamp(path: str) -> tuple[int, int, int]:
    try:
        status = os.stat(path)
    except OSError:
        return (0, 0, 0)
    return status.st_mtime_ns, status.st_ino, status.st_size


def _source(pem: Pem) -> str:
    return f'{pem.where} (file "{pem.path}")' if pem.path else pem.where


def _reason(error: Exception) -> str:
    """OpenSSL's reason without its file and line; never the input."""
    return str(getattr(error, "reason", None) or type(error).__name__).replace("_", " ").lower()
