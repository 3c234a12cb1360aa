"""A record of calls: a line of JSON for each, without secrets, after one line that says what it is.

A request stands there with the names of CSI's declarations, as `mooring call` prints it. Of secrets the names stay.
What this CSI does not know is left out: it may be secret.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping
from typing import Any, Final, TextIO

from google.protobuf.message import Message

import mooring
from mooring.base.errors import ConfigError
from mooring.base.json_text import from_json
from mooring.conform.call.fields import fill
from mooring.conform.call.names import wrong
from mooring.conform.proxy.proxy import Passed
from mooring.csi.driver import RPCS_BY_PATH, Rpc
from mooring.csi.errors import DriverError
from mooring.csi.redact import TOKENS_KEY, is_secret, scrubbed, shown
from mooring.wire.grpc.codes import CODES, Code, go_name

WHAT: Final = "calls of a CSI driver"
FORMAT: Final = 1
BYTES_MAX: Final = 512 * 2**20


@dataclasses.dataclass(frozen=True, slots=True)
class Recorded:
    """One call of a record, with its answer or error; neither where nobody got to know it.

    secrets: their names; None where there were some, and the record does not say which.
    """

    number: int
    rpc: Rpc[Any, Any]
    request: Message
    secrets: tuple[str, ...] | None
    answer: Message | None
    error: DriverError | None


class Recorder:
    """Writes a record. file: open, and the recorder's alone. driver: the address, for people."""

    def __init__(self, file: TextIO, driver: str) -> None:
        self._file = file
        self._first_s: float | None = None
        self._write({"what": WHAT, "format": FORMAT, "mooring": mooring.__version__, "driver": driver})

    def add(self, passed: Passed) -> None:
        """Each line is whole at once: whoever kills the proxy has a record."""
        if self._first_s is None:
            self._first_s = passed.began_s
        line: dict[str, Any] = {
            "call": passed.number,
            "t": round(passed.began_s - self._first_s, 6),
            "path": passed.path,
        }
        request = passed.request
        if request is not None:
            document, names = _document(request)
            line["request"] = document
            if names:
                line["secrets"] = names
            if passed.answer is not None:
                line["answer"] = _scrubbed(_document(passed.answer)[0], request)
        if passed.error is not None:
            line["error"] = {"code": go_name(passed.error.code), "text": passed.text}
        line |= {"seconds": round(passed.seconds, 6), "reached": passed.reached}
        if passed.fault is not None:
            line["fault"] = f"{passed.fault} ({passed.fault.place})"
        self._write(line)

    def _write(self, line: Mapping[str, Any]) -> None:
        self._file.write(f"{json.dumps(line, ensure_ascii=False)}\n")
        self._file.flush()


def _document(message: Message) -> tuple[dict[str, Any], list[str]]:
    """The message without its secrets, and their names."""
    secrets = [field.name for field in message.DESCRIPTOR.fields if is_secret(field)]
    document = {name: without_tokens(value) for name, value in shown(message).items() if name not in secrets}
    return document, sorted(key for name in secrets for key in getattr(message, name))


def without_tokens(value: Any) -> Any:
    return {key: one for key, one in value.items() if key != TOKENS_KEY} if isinstance(value, dict) else value


def _scrubbed(value: Any, request: Message) -> Any:
    """An answer may repeat a secret."""
    if isinstance(value, dict):
        return {key: _scrubbed(one, request) for key, one in value.items()}
    if isinstance(value, list):
        return [_scrubbed(one, request) for one in value]
    return scrubbed(value, request) if isinstance(value, str) else value


def read(lines: Iterable[str], name: str) -> list[Recorded]:
    """The calls that reached the driver, in the order of their begin. name: the file's. Raises ConfigError."""
    calls = []
    for number, text in enumerate(lines, 1):
        try:
            line = from_json(text)
            if number == 1:
                _check_head(line, name)
            elif (call := _call(line)) is not None:
                calls.append(call)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise wrong(f"{name}:{number}: is no line of a record of calls: {error}") from None
        except ConfigError as error:
            raise wrong(str(error) if number == 1 else f"{name}:{number}: {error}") from None
    if not calls:
        raise wrong(f"{name}: holds no call that reached a driver")
    return sorted(calls, key=lambda call: call.number)


def _check_head(line: Any, name: str) -> None:
    if not isinstance(line, dict) or line.get("what") != WHAT:
        raise wrong(f"{name}: is no record of calls: make one with mooring proxy --record=FILE")
    if line["format"] != FORMAT:
        raise wrong(f"{name}: has format {line['format']}; this version of mooring reads format {FORMAT}")


def _call(line: Mapping[str, Any]) -> Recorded | None:
    """None for a call that never reached a driver, or that this CSI does not know."""
    rpc = RPCS_BY_PATH.get(line["path"])
    if rpc is None or not line["reached"] or "request" not in line:
        return None
    answer = error = None
    if "answer" in line:
        answer = _message(rpc.response_type, line["answer"])
    elif "error" in line:
        error = DriverError(CODES.get(line["error"]["code"], Code.UNKNOWN), line["error"]["text"])
    return Recorded(
        line["call"], rpc, _message(rpc.request_type, line["request"]), tuple(line.get("secrets", ())), answer, error
    )


def _message(kind: type[Message], document: Any) -> Message:
    message = kind()
    fill(message, document)
    return message
