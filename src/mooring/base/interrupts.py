"""Ctrl-C while a program begins."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def interrupted_at_once() -> Iterator[None]:
    """Ctrl-C ends the process without a word while the block runs, which has nothing to tidy up: what it imports, say.

    As an exception it would be told with a traceback, or be lost where Python ignores exceptions: in a finalizer, for
    example.
    """
    before = signal.getsignal(signal.SIGINT)
    is_ours = before is signal.default_int_handler
    if is_ours:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        if is_ours:
            signal.signal(signal.SIGINT, before)
