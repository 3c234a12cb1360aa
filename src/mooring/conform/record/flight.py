"""The calls of a flight record, which also has what a driver was asked."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

import msgspec

from mooring.conform.call.fields import fill
from mooring.conform.record.lines import Recorded, without_tokens
from mooring.control.flight.entries import CALL, Entry, error_of, message_bytes
from mooring.csi.driver import RPCS
from mooring.csi.errors import DriverError


def calls_in(entries: Iterable[Entry]) -> Iterator[Recorded]:
    """In the order of their ends: a flight record has no other. It does not have the names of secrets either."""
    calls = (entry for entry in entries if entry.kind == CALL and entry.asked is not None)
    for number, entry in enumerate(calls, 1):
        assert entry.asked is not None
        rpc, document = RPCS[entry.asked.resource], json.loads(entry.asked.body)
        has_secrets = document.pop("secrets", None) is not None
        request = rpc.request_type()
        fill(request, {name: without_tokens(value) for name, value in document.items()})
        error = None if entry.fault is None else error_of(entry.fault)
        assert error is None or isinstance(error, DriverError), "a driver's"
        answer = (
            None
            if error is not None
            else rpc.response_type.FromString(message_bytes(msgspec.json.decode(entry.answer)))
        )
        yield Recorded(number, rpc, request, None if has_secrets else (), answer, error)
