"""Tokens of service accounts: signed, read again, and no good when their time is over."""

from __future__ import annotations

from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from mooring.api.meta import Key
from mooring.apiserver.bootstrap import new_store
from mooring.apiserver.identity.accounts import bearer_of, claims_of
from mooring.apiserver.identity.tokens import TokenKey
from mooring.apiserver.rules.serviceaccount import SERVICE_ACCOUNTS
from mooring.apiserver.store import ObjectStore
from mooring.base.errors import ConfigError
from mooring.base.randomness import Random
from tests.support.rows import each_row

NOW = 1_700_000_000.0


def pem(key: Any) -> bytes:
    encoded: bytes = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return encoded


def a_key() -> TokenKey:
    return TokenKey(pem(ec.generate_private_key(ec.SECP256R1())))


def a_store() -> tuple[ObjectStore, dict[str, Any]]:
    """A store with one account, and the account."""
    store = new_store(Random(1), NOW)
    store.create(
        SERVICE_ACCOUNTS, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "a"}}, "default", NOW
    )
    return store, store.get(SERVICE_ACCOUNTS, Key("default", "a")).whole()


def test_a_token_says_what_was_signed() -> None:
    key, claims = a_key(), {"sub": "a", "aud": ["b"]}
    assert claims == key.claims(key.sign(claims))


def test_another_keys_token_is_none() -> None:
    assert a_key().claims(a_key().sign({"sub": "a"})) is None


@each_row("position", [5, 60, 110, -5])
def test_a_changed_letter_spoils_a_token(position: int) -> None:
    key = a_key()
    token = key.sign({"sub": "a", "filler": "x" * 60})
    changed = "A" if token[position] != "A" else "B"
    place = position % len(token)
    assert key.claims(token[:place] + changed + token[place + 1 :]) is None


@each_row("text", ["", ".", "..", "a.b.c", "ü.ü.ü", "=.=.=", "\x00.\x00.\x00"])
def test_what_is_no_token_is_none(text: str) -> None:
    key = a_key()
    head = key.sign({}).split(".")[0]
    assert key.claims(text) is None
    assert key.claims(f"{head}.{text}") is None


@each_row(
    "content",
    [b"nonsense", pem(ec.generate_private_key(ec.SECP384R1())), pem(rsa.generate_private_key(65537, 1024))],
    ids=["no_key", "curve", "rsa"],
)
def test_a_key_of_another_kind_is_refused(content: bytes) -> None:
    with pytest.raises(ConfigError, match="key"):
        TokenKey(content)


@each_row(("later_s", "good"), [(-1, False), (0, True), (599, True), (600, False)])
def test_a_token_is_good_for_its_time(later_s: float, good: bool) -> None:
    store, account = a_store()
    claims = claims_of(account, None, ["x"], NOW, 600, "id")
    assert good == (bearer_of(claims, store, NOW + later_s) is not None)


def test_a_token_of_another_issuer_is_nobodys() -> None:
    store, account = a_store()
    claims = claims_of(account, None, ["x"], NOW, 600, "id")
    assert bearer_of({**claims, "iss": "https://other"}, store, NOW) is None


def test_a_token_ends_with_what_it_is_bound_to() -> None:
    store, account = a_store()
    bound = {"kind": "Pod", "metadata": {"name": "p", "uid": "gone"}, "spec": {"nodeName": "n"}}
    claims = claims_of(account, bound, ["x"], NOW, 600, "id")
    assert {"name": "n"} == claims["kubernetes.io"]["node"]
    assert bearer_of(claims, store, NOW) is None
