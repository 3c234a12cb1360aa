"""Requests as bytes: the client writes them, the server reads them."""

from __future__ import annotations

from collections.abc import Iterable


def header_lines(pairs: Iterable[tuple[str, str]]) -> bytes:
    """Headers as they are sent, each with its line end: made once, for many requests. Raises Unsendable.

    No Content-Length and no Transfer-Encoding may be among them: `request_bytes` says the length.
    """
    raise NotImplementedError


def request_bytes(method: str, target: str, lines: bytes, body: bytes | None = None) -> bytes:
    """A whole request in one piece. Raises Unsendable.

    target: escaped already; a path with its query, or what a proxy is asked (`http://host/path`, `host:443`).
    lines: of `header_lines`, `Host` among them. body: None for none; then PATCH, POST and PUT say that its length is 0.
    """
    raise NotImplementedError
