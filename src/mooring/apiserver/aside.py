"""Threads beside the loop, for work that takes long: they may read what never changes, and ask the loop for everything
else.

Objects and their tables belong to the loop. A thread changes them through `in_loop`; if its data was overtaken by then,
it begins anew, as kube-apiserver does when etcd has another version than it had read.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
from collections.abc import Callable
from typing import TypeVar

from mooring.apiserver import effort

T = TypeVar("T")

_loop: contextvars.ContextVar[asyncio.AbstractEventLoop | None] = contextvars.ContextVar("aside", default=None)


class Overtaken(Exception):
    """An object that a thread has read has changed meanwhile."""


def in_loop(call: Callable[[], T]) -> T:
    """The call's result, or error. At once, where the caller is in the loop; a thread waits for it.

    The consequences of a write are no longer the request's work, also in the loop.
    """
    loop = _loop.get()
    if loop is None:
        with effort.of_request(None):
            return call()
    done: concurrent.futures.Future[T] = concurrent.futures.Future()

    def run() -> None:
        try:
            done.set_result(call())
        except BaseException as error:
            done.set_exception(error)

    loop.call_soon_threadsafe(run, context=contextvars.Context())
    return done.result()


def is_aside() -> bool:
    """True in a thread that works beside the loop."""
    return _loop.get() is not None


def begin_aside(loop: asyncio.AbstractEventLoop) -> None:
    """Says that this thread works beside the loop, from now on."""
    _loop.set(loop)
