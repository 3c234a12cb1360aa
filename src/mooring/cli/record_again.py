"""`mooring call --record`: asks a driver what a record of `mooring proxy` asked, in its order, and shows where the
answers differ.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from mooring.base.border import refused_as
from mooring.base.errors import ConfigError
from mooring.base.flags import UsageError
from mooring.base.text import visible
from mooring.cli.people import answer_of

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from mooring.cli.call import CallFlags
    from mooring.conform.record.again import Compared
    from mooring.conform.record.lines import Recorded
    from mooring.csi.driver import Rpc

DIFFERS: Final = 1
CONNECT_S_MAX: Final = 5.0


def ask_again(path: Path, flags: CallFlags, prog: str) -> int:
    """Return the exit code. Raises ConfigError."""
    from mooring.cli.call import text_of
    from mooring.conform.call.fields import secrets_in
    from mooring.conform.record.again import check_secrets

    calls = list(calls_of(path))
    if not calls:
        raise ConfigError(f"{path}: holds no call of a driver", exit_code=2)
    secrets = secrets_in(text_of(flags.secrets_file), flags.secrets_file) if flags.secrets_file else {}
    check_secrets(calls, secrets)
    return answer_of(_asked(calls, secrets, flags), prog, DIFFERS)


def calls_of(path: Path) -> Iterator[Recorded]:
    """Yield the calls of a record. Raises ConfigError."""
    from mooring.conform.record.lines import read

    with refused_as(f"can't read {path}", exit_code=2):
        try:
            with path.open(encoding="utf-8") as lines:
                yield from read(lines, str(path))
        except UnicodeDecodeError:
            raise ConfigError(
                f"{path}: is no UTF-8, and no record of calls: make one with mooring proxy --record=FILE", exit_code=2
            ) from None


async def _asked(calls: list[Recorded], secrets: dict[str, str], flags: CallFlags) -> int:
    from mooring.base.clock import LoopClock
    from mooring.cli.call import REQUIRED
    from mooring.conform.record.again import asked_again
    from mooring.csi.driver import Call
    from mooring.csi.wire_driver import WireDriver

    if not flags.socket:
        raise UsageError(REQUIRED)
    driver = WireDriver(flags.socket, clock=LoopClock())
    await driver.connect(CONNECT_S_MAX, "start the driver, or name its socket with --csi-address")

    async def ask(rpc: Rpc[Any, Any], request: Message) -> Message:
        answer: Message = await driver.invoke(rpc, request, Call(flags.timeout_s))
        return answer

    different = 0
    try:
        async for one in asked_again(calls, ask, secrets):
            different += bool(one.differences)
            for text in [_as_json(one)] if (flags.o or flags.output) == "json" else _as_text(one):
                sys.stdout.write(f"{text}\n")
            sys.stdout.flush()
    finally:
        await driver.close()
    ending = f"{different} of {len(calls)} calls were answered otherwise than in the record."
    (sys.stderr if (flags.o or flags.output) == "json" else sys.stdout).write(f"{ending}\n")
    return DIFFERS if different else 0


def _as_text(one: Compared) -> Iterator[str]:
    from mooring.csi.redact import redacted

    result = str(one.error) if one.error is not None else "OK"
    yield visible(f"{one.call.number} {one.call.rpc.name} {redacted(one.request)} -> {result}")
    yield from (visible(f"    {text}") for text in one.differences)


def _as_json(one: Compared) -> str:
    from mooring.csi.redact import scrubbed, shown
    from mooring.wire.grpc.codes import Code, go_name

    values: dict[str, Any] = {"call": one.call.number, "rpc": one.call.rpc.name, "request": shown(one.request)}
    values["code"] = go_name(Code.OK if one.error is None else one.error.code)
    values["differences"] = list(one.differences)
    return scrubbed(json.dumps(values, ensure_ascii=False), one.request)
