"""Replies as bytes: the head and body of an answer in one piece."""

from __future__ import annotations

import functools
from http import HTTPStatus
from typing import Final

from mooring.apiserver.web.messages import Reply


@functools.lru_cache(maxsize=256)
def status_line(status: int, content_type: str) -> str:
    """The part of an answer's head that is always the same."""
    phrase = HTTPStatus(status).phrase if status in _STATUSES else ""
    return f"HTTP/1.1 {status} {phrase}\r\nCache-Control: no-cache, private\r\nContent-Type: {content_type}\r\n"


_WARNINGS_MAX: Final = 4096
_WARNING_MAX: Final = 256
"""Letters of all warnings together, and of each where that is too much."""
_WARNINGS_COUNT_MAX: Final = 80
"""Clients in Python read no answer of more than 100 headers. Differs from kube-apiserver, which bounds letters alone."""
_WITHOUT_BODY: Final = (HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED)
_STATUSES: Final = frozenset(int(status) for status in HTTPStatus)


def rendered(reply: Reply, date: str, *, is_last: bool, with_body: bool = True) -> bytes:
    """A whole answer. date: the Date header with its line end. is_last: the connection ends after it. with_body: False for HEAD."""
    head = f"{status_line(reply.status, reply.content_type)}{date}"
    if reply.status not in _WITHOUT_BODY:
        head += f"Content-Length: {len(reply.body)}\r\n"
    for name, value in reply.headers:
        head += f"{name}: {value}\r\n"
    for text in _bounded(reply.warnings):
        head += f'Warning: 299 - "{_quoted(text)}"\r\n'
    if reply.retry_after_s is not None:
        head += f"Retry-After: {reply.retry_after_s}\r\n"
    if is_last:
        head += "Connection: close\r\n"
    return b"%b\r\n%b" % (head.encode("utf-8", "replace"), reply.body if with_body else b"")


def _bounded(warnings: tuple[str, ...]) -> list[str]:
    """Each once; where they are long together, the first letters of the first ones, as far as they go."""
    unique, length = list(dict.fromkeys(warnings))[:_WARNINGS_COUNT_MAX], 0
    if sum(map(len, unique)) <= _WARNINGS_MAX:
        return unique
    cut = [text[:_WARNING_MAX] for text in unique]
    for number, text in enumerate(cut):
        length += len(text)
        if length > _WARNINGS_MAX:
            return cut[:number]
    return cut


def _quoted(text: str) -> str:
    """Text as a quoted string in a header, on one line."""
    printable = "".join(letter if letter.isprintable() else " " for letter in text)
    return printable.replace("\\", "\\\\").replace('"', '\\"')
