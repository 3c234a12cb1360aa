"""Signed statements: JSON Web Tokens by ES256, with a key that lies beside the server's certificate."""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Mapping
from typing import Any, Final

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature

from mooring.base.errors import ConfigError
from mooring.base.json_text import JsonDecoder

_claims: Final = JsonDecoder[dict[str, Any]](dict)
_PART: Final = 32
"""Bytes of each half of a signature."""


class TokenKey:
    """Signs tokens, and knows its own. pem: a private key on the curve P-256."""

    def __init__(self, pem: bytes) -> None:
        """Raises ConfigError for what is no such key."""
        try:
            key = serialization.load_pem_private_key(pem, None)
            if not isinstance(key, ec.EllipticCurvePrivateKey) or not isinstance(key.curve, ec.SECP256R1):
                raise TypeError("another kind of key")
        except (ValueError, TypeError) as error:
            raise ConfigError(
                "the key for service accounts' tokens can't be read: remove accounts.key for a new one"
            ) from error
        self._key = key
        public = key.public_key().public_bytes(
            serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        self._head = _encoded(msgspec.json.encode({"alg": "ES256", "kid": _encoded(hashlib.sha256(public).digest())}))

    def sign(self, claims: Mapping[str, Any]) -> str:
        text = f"{self._head}.{_encoded(msgspec.json.encode(claims))}"
        r, s = decode_dss_signature(self._key.sign(text.encode(), ec.ECDSA(hashes.SHA256())))
        return f"{text}.{_encoded(r.to_bytes(_PART) + s.to_bytes(_PART))}"

    def claims(self, token: str) -> dict[str, Any] | None:
        head, _, rest = token.partition(".")
        content, _, signature = rest.partition(".")
        if head != self._head:
            return None
        try:
            given = _decoded(signature)
            pair = encode_dss_signature(int.from_bytes(given[:_PART]), int.from_bytes(given[_PART:]))
            self._key.public_key().verify(pair, f"{head}.{content}".encode(), ec.ECDSA(hashes.SHA256()))
            return _claims.decode(_decoded(content))
        except (binascii.Error, InvalidSignature, ValueError):
            return None


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _decoded(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
