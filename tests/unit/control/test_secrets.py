"""A Secret's values, as CSI wants them: text, and never shown."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import pytest

from mooring.api.core import SECRETS, SecretReference
from mooring.base.clock import LoopClock
from mooring.control.secrets import SecretCache, SecretError, secret_values
from mooring.kube.errors import Unreachable
from tests.support.builders import a_secret, typed
from tests.support.rows import each_row
from tests.support.virtual_loop import in_virtual_time
from tests.unit.kube.fake_cluster import FakeCluster


def encoded(value: bytes) -> str:
    return base64.b64encode(value).decode()


def test_a_secret_becomes_text():
    secret = typed(a_secret(data={"user": encoded(b"me"), "word": encoded("pässwort".encode())}))
    assert {"user": "me", "word": "pässwort"} == secret_values(secret)
    assert {} == secret_values(typed(a_secret()))


@each_row("data", [encoded(b"\xff\xfe-hidden"), "*not base64*-hidden"])
def test_a_secret_that_is_no_text_is_named_by_key_and_never_shown(data):
    secret = typed(a_secret("s", {"key": data}))
    with pytest.raises(SecretError) as caught:
        secret_values(secret)
    assert 'key "key" of secret "default/s"' in str(caught.value)
    assert "hidden" not in str(caught.value)


def test_a_secret_never_shows_in_its_repr():
    assert "hunter2" not in repr(typed(a_secret(data={"a": "hunter2"})))


@in_virtual_time
async def test_secrets_of_one_name_in_two_namespaces_are_two():
    """One tenant's password must not reach the other's storage."""
    cluster = FakeCluster()
    one, other = (SecretReference("s", namespace) for namespace in ("one", "other"))
    cluster.put(SECRETS, "s", "one", data={"word": encoded(b"1")})
    cluster.put(SECRETS, "s", "other", data={"word": encoded(b"2")})
    cache = SecretCache(cluster, LoopClock())
    assert [{"word": "1"}, {"word": "2"}] == [await cache.get(ref) for ref in (one, other)]
    cluster.put(SECRETS, "s", "one", data={"word": encoded(b"3")})
    cluster.put(SECRETS, "s", "other", data={"word": encoded(b"4")})
    cache.invalidate(one)
    assert [{"word": "3"}, {"word": "2"}] == [await cache.get(ref) for ref in (one, other)], (
        "the other one is remembered still"
    )


@in_virtual_time
async def test_who_asks_while_a_secret_is_read_shares_its_error():
    """Each with a reading of its own would wait for all before it. Who asks afterwards has one of its own."""

    class Slow(FakeCluster):
        count = 0

        async def ask(self, request: Any) -> Any:
            self.count += 1
            await asyncio.sleep(30.0)
            raise Unreachable("timed out")

    cluster, clock, ref = Slow(), LoopClock(), SecretReference("s", "ns")
    cache = SecretCache(cluster, clock)
    began = clock.now()
    found = await asyncio.gather(*(cache.get(ref) for _ in range(5)), return_exceptions=True)
    assert ([Unreachable] * 5, 1, 30.0) == ([type(error) for error in found], cluster.count, clock.now() - began)
    with pytest.raises(Unreachable):
        await cache.get(ref)
    assert 2 == cluster.count
