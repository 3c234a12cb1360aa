"""Asks a driver what a record asked, in its order, and compares the answers.

A driver gives other ids and contexts than then. Those of its answers take the place of the recorded ones in later
requests, and are no difference, as long as a context has the same keys. Times are none either, nor are the texts of
errors with the same code.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
from google.protobuf.message import Message

from mooring.conform.call.fields import fill_secrets
from mooring.conform.call.names import wrong
from mooring.conform.record.lines import Recorded
from mooring.csi.driver import Rpc
from mooring.csi.errors import DriverError
from mooring.csi.redact import is_map, scrubbed, shown

IDS: Final = frozenset(
    {
        "volume_id",
        "snapshot_id",
        "group_snapshot_id",
        "source_volume_id",
        "snapshot_ids",
        "source_volume_ids",
        "next_token",
    }
)
_WITH_IDS: Final = IDS | {"starting_token"}
CONTEXTS: Final = frozenset({"volume_context", "publish_context"})
_TIMES: Final = frozenset({"creation_time"})

Ask = Callable[[Rpc[Any, Any], Message], Awaitable[Message]]
"""Makes a call. Raises DriverError."""


class Compared(msgspec.Struct, frozen=True):
    """differences: `publish_context.device: was '/dev/a', is '/dev/b'`; none where the driver answered as then."""

    call: Recorded
    request: Message
    answer: Message | None
    error: DriverError | None
    differences: tuple[str, ...]


def check_secrets(calls: Sequence[Recorded], secrets: Mapping[str, str]) -> None:
    """Raises ConfigError where the record's calls had secrets that nobody gives."""
    missing = sorted({name for call in calls for name in call.secrets or ()} - secrets.keys())
    if missing or (not secrets and any(call.secrets is None for call in calls)):
        names = f" {', '.join(missing)}" if missing else ""
        raise wrong(f"the record's calls had secrets{names}, which no record holds: give them with --secrets-file=FILE")


async def asked_again(
    calls: Sequence[Recorded], ask: Ask, secrets: Mapping[str, str]
) -> AsyncGenerator[Compared, None]:
    """secrets: their values by name."""
    today = _Today()
    for call in calls:
        request = today.request(call.request)
        fill_secrets(request, secrets if call.secrets is None else {name: secrets[name] for name in call.secrets})
        answer = error = None
        try:
            answer = await ask(call.rpc, request)
        except DriverError as failed:
            error = failed
        if call.answer is not None and answer is not None:
            today.learn(call.answer, answer)
        differences = (scrubbed(text, request) for text in _differences(call, answer, error, today))
        yield Compared(call, request, answer, error, tuple(differences))


def _differences(call: Recorded, answer: Message | None, error: DriverError | None, today: _Today) -> Iterator[str]:
    if call.answer is None and call.error is None:
        return  # nobody got to know how it ended then
    if error is not None:
        if call.error is None or call.error.code != error.code:
            yield f"was {_ended(call.error)}, is {_ended(error)}"
    elif call.error is not None:
        yield f"was {_ended(call.error)}, is OK"
    else:
        assert call.answer is not None
        assert answer is not None
        yield from _between(shown(today.same(call.answer)), shown(answer), "")


def _ended(error: DriverError | None) -> str:
    return "OK" if error is None else str(error)


def _between(then: Any, now: Any, path: str) -> Iterator[str]:
    if isinstance(then, dict) and isinstance(now, dict):
        for name in sorted(then.keys() | now.keys()):
            if name in CONTEXTS:
                was, now_is = (", ".join(sorted(one.get(name) or ())) or None for one in (then, now))
                yield from _between(was, now_is, f"the keys of {path}.{name}" if path else f"the keys of {name}")
            elif name not in _TIMES:
                yield from _between(then.get(name), now.get(name), f"{path}.{name}" if path else name)
    elif isinstance(then, list) and isinstance(now, list) and len(then) == len(now):
        for number, (one, other) in enumerate(zip(then, now, strict=True)):
            yield from _between(one, other, f"{path}[{number}]")
    elif then != now:
        yield f"{path}: was {_said(then)}, is {_said(now)}"


def _said(value: Any) -> str:
    return "not there" if value is None else repr(value)


class _Today:
    """The ids and contexts of today's answers, by those of the record."""

    def __init__(self) -> None:
        self._ids: dict[str, str] = {}
        self._contexts: dict[tuple[tuple[str, str], ...], dict[str, str]] = {}

    def learn(self, then: Message, now: Message) -> None:
        """From two answers to one request."""
        for field, value in then.ListFields():
            other = getattr(now, field.name)
            if field.name in CONTEXTS:
                self._contexts[_key(value)] = dict(other)
            elif field.name in IDS and not field.is_repeated:
                if other:
                    self._ids[value] = other
            elif field.message_type is not None and not is_map(field):
                pairs = zip(value, other, strict=False) if field.is_repeated else ((value, other),)
                for one, another in pairs:
                    self.learn(one, another)

    def request(self, recorded: Message) -> Any:
        """The same message with today's ids and contexts."""
        message = type(recorded)()
        message.CopyFrom(recorded)
        self._put(message, contexts=True)
        return message

    def same(self, answer: Message) -> Any:
        """The recorded answer as it would be today: with today's ids."""
        message = type(answer)()
        message.CopyFrom(answer)
        self._put(message, contexts=False)
        return message

    def _put(self, message: Message, *, contexts: bool) -> None:
        for field, value in message.ListFields():
            if field.name in CONTEXTS:
                if contexts and (today := self._contexts.get(_key(value))) is not None:
                    value.clear()
                    value.update(today)
            elif field.name in _WITH_IDS:
                if field.is_repeated:
                    value[:] = [self._ids.get(one, one) for one in value]
                else:
                    setattr(message, field.name, self._ids.get(value, value))
            elif field.message_type is not None and not is_map(field):
                for one in value if field.is_repeated else (value,):
                    self._put(one, contexts=contexts)


def _key(context: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(context.items()))
