"""Requests that take long are answered by a thread beside the loop, one after the other, so that nobody else waits for
them.

A request's size shows that it takes long. One that turns out to be more work than it looks (a rule, a pattern) begins
anew here.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import sys
from collections.abc import Callable
from typing import Final

from mooring.apiserver import api_errors
from mooring.apiserver.aside import Overtaken, begin_aside
from mooring.apiserver.store import ObjectStore
from mooring.apiserver.web.messages import HttpReply, HttpRequest, WatchReply, error_reply
from mooring.apiserver.web.queries import Route, is_watch, key_of

BODY_BYTES: Final = 32 * 1024
_SLOW_BODY_BYTES: Final = 4 * 1024
_STORED_BYTES: Final = 64 * 1024
_OBJECTS: Final = 200
_BYTES: Final = 1024 * 1024
_PLAIN_OBJECTS: Final = 2000
_PLAIN_BYTES: Final = 2 * 1024 * 1024
"""For those that are only joined, as they are stored. A hundred clients may ask at once, and a probe waits for all
that came before it.
"""
_KINDS: Final = 500
_OF_ALL_KINDS: Final = frozenset(("", "api", "apis", "metrics"))
"""Pages that speak of all kinds."""
_SELECTORS: Final = frozenset(("labelSelector", "fieldSelector"))
_WAITING_MAX: Final = 256
_WAITING_BYTES_MAX: Final = 64 * 1024 * 1024
_TRIES: Final = 5
_SWITCH_S: Final = 0.001
"""How long the thread may keep the interpreter from the loop: Python's 0.005 s is waited for at each socket that is
read or written.
"""

Answer = Callable[[], HttpReply | WatchReply]


class LongRequests:
    """One thread, begun with the first request for it."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._pool: concurrent.futures.ThreadPoolExecutor | None = None
        self._waiting = self._waiting_bytes = 0

    def is_one(self, request: HttpRequest, route: Route | None) -> bool:
        """True for a request that is long by its size, or by that of what it is about."""
        if len(request.body) > BODY_BYTES or (
            len(request.body) > _SLOW_BODY_BYTES and "yaml" in request.headers.get("content-type", "")
        ):
            return True
        if route is None:
            return request.path[0] == "openapi" or (
                request.path[0] in _OF_ALL_KINDS and len(self._store.resources) > _KINDS
            )
        accept = request.headers.get("accept", "")
        if "yaml" in accept:
            return True
        table = self._store.table(route.resource)
        if route.is_collection:
            is_plain = request.method == "GET" and "as=" not in accept and not _SELECTORS.intersection(request.query)
            most, bytes_most = (_PLAIN_OBJECTS, _PLAIN_BYTES) if is_plain else (_OBJECTS, _BYTES)
            is_large = len(table) > most or table.bytes_count > bytes_most
            return is_large and request.method in ("GET", "DELETE") and not is_watch(request.query)
        stored = table.get(key_of(route))
        return stored is not None and len(stored.body) > _STORED_BYTES

    def take(self, size: int, answer: Answer, told: Callable[[HttpReply | WatchReply | Exception], None]) -> None:
        """Has the answer made, and tells it in the loop. size: of the request, in bytes. With too many waiting it is
        refused at once.
        """
        if self._waiting >= _WAITING_MAX or self._waiting_bytes + size > _WAITING_BYTES_MAX:
            told(error_reply(api_errors.too_many_requests()))
            return
        self._waiting += 1
        self._waiting_bytes += size
        loop = asyncio.get_running_loop()
        if self._pool is None:
            sys.setswitchinterval(_SWITCH_S)
            self._pool = concurrent.futures.ThreadPoolExecutor(1, "apiserver/long", begin_aside, (loop,))

        def done(found: asyncio.Future[HttpReply | WatchReply]) -> None:
            self._waiting -= 1
            self._waiting_bytes -= size
            if not found.cancelled():
                error = found.exception()
                assert error is None or isinstance(error, Exception)
                told(error or found.result())

        loop.run_in_executor(self._pool, _tried, answer).add_done_callback(done)

    def close(self) -> None:
        """Waiting requests are given up; the one in work ends by itself."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)


def _tried(answer: Answer) -> HttpReply | WatchReply:
    for _ in range(_TRIES):
        try:
            return answer()
        except Overtaken:
            continue
    return error_reply(api_errors.too_many_requests())
