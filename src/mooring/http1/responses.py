"""Answers as bytes: the client's half, which reads them."""

from __future__ import annotations

from collections.abc import Sequence


class ResponseHeaders:
    """Headers of an answer; names in any case. An answer has few of them, and most are never asked for."""

    __slots__ = ()

    def get(self, name: str, default: str = "", /) -> str:
        """The first value of that name."""
        raise NotImplementedError

    def getall(self, name: str, default: Sequence[str] = (), /) -> Sequence[str]:
        """All values of that name in their order."""
        raise NotImplementedError

    def __contains__(self, name: object, /) -> bool:
        raise NotImplementedError


class ResponseHead:
    """status: 200 to 999, 1xx are skipped. reason: as the server spells it, often "".

    is_persistent: as far as version and `Connection` go, the connection may serve another request after this answer.
    """

    __slots__ = ("headers", "is_persistent", "reason", "status")

    status: int
    reason: str
    headers: ResponseHeaders
    is_persistent: bool


class ResponseReader:
    """Reads the answer to one request: `feed` it what comes, then look at `head`, `take` the body, until `is_done`.

    head: None until it is whole. unread: bytes of the body that have come and were not taken; the bound is the caller's.
    is_done: the answer's last byte has come. has_begun: any byte has come: a request without that may be sent again if it is a read.
    """

    __slots__ = ("has_begun", "head", "is_done", "unread")

    def __init__(self, method: str) -> None:
        """method: of the request. An answer to HEAD has no body, nor has an agreement (2xx) to CONNECT."""
        self.head: ResponseHead | None = None
        self.unread = 0
        self.is_done = self.has_begun = False

    @property
    def keep_alive(self) -> bool:
        """True when the connection may serve another request: the answer is done, nothing came behind it, and its head agrees."""
        raise NotImplementedError

    def feed(self, data: bytes) -> None:
        """Takes bytes from the connection; what comes behind the end is dropped, and `keep_alive` is False. Raises Malformed."""
        raise NotImplementedError

    def end(self) -> None:
        """The connection has ended: so has a body without a length. Raises BrokenOff for an answer that is not whole."""
        raise NotImplementedError

    def take(self) -> bytes:
        """The body's bytes that came since the last call, unchunked, as the server encoded them; b"" for none."""
        raise NotImplementedError
