"""Work that blocks, such as mounting: in a thread, with errors as CSI has them.

await blocking(targets.bind, folder, Path(request.target_path))
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import errno
import functools
import threading
from collections.abc import Callable, Iterator
from typing import Any, Final, ParamSpec, TypeVar

from mooring.base.virtual_loop import VirtualLoop
from mooring.csi.errors import DriverError
from mooring.mounts.system import ToolFailed, ToolHangs
from mooring.mounts.targets import Occupied
from mooring.wire.grpc.codes import Code

P = ParamSpec("P")
T = TypeVar("T")

_CAUSES_MAX: Final = 20
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


async def blocking(work: Callable[P, T], /, *args: P.args, **options: P.kwargs) -> T:
    """The result of the work, done in a thread of its own.

    A caller that gives up is told so only after the work's end: a mount that is half made has no owner. A call that is
    cancelled twice, as by a limit of its own, or all when the process ends, does not wait; but its volume stays locked
    until the work has ended. A thread that hangs holds up this volume alone.

    Raises DriverError for OSError (ResourceExhausted where a disk is full, DeadlineExceeded where a backend has not
    answered, Unavailable where a connection broke), a tool that failed (the same) and paths that something else is at
    (AlreadyExists); other exceptions pass.
    """
    running = _started(work, args, options)
    if (works := _works.get()) is not None:
        works.began(running)
    cancelled: asyncio.CancelledError | None = None
    while not running.done():
        try:
            await asyncio.wait([running])
        except asyncio.CancelledError as error:
            if cancelled is not None:
                raise
            cancelled = error
    try:
        result = running.result()
    except (OSError, ToolFailed, Occupied) as error:
        raise driver_error(error) from error
    if cancelled is not None:
        raise cancelled
    return result


class _Works:
    """The work in threads that was begun in a block, or in a task of it that has outlived it. release: called once."""

    def __init__(self, release: Callable[[], object]) -> None:
        self._release = release
        self._running: set[asyncio.Future[Any]] = set()
        self._is_over = self._is_released = False

    def began(self, work: asyncio.Future[Any]) -> None:
        if not work.done():
            self._running.add(work)
            work.add_done_callback(self._ended)

    def _ended(self, work: asyncio.Future[Any]) -> None:
        self._running.discard(work)
        self._release_at_last()

    def block_ended(self) -> None:
        self._is_over = True
        self._release_at_last()

    def _release_at_last(self) -> None:
        if self._is_over and not self._is_released and all(work.done() for work in self._running):
            self._is_released = True
            self._release()


_works: contextvars.ContextVar[_Works | None] = contextvars.ContextVar("works", default=None)


@contextlib.contextmanager
def held_until_all_ends(release: Callable[[], object]) -> Iterator[None]:
    """Calls `release` once the block has ended, and all work in threads that was begun in it."""
    works = _Works(release)
    before = _works.set(works)
    try:
        yield
    finally:
        _works.reset(before)
        works.block_ended()


def driver_error(error: OSError | ToolFailed | Occupied) -> DriverError:
    """The error of a call that failed by this one."""
    if isinstance(error, Occupied):
        return DriverError(Code.ALREADY_EXISTS, str(error))
    if (code := code_of_doubt(error)) is not None:
        return DriverError(code, f"{error}: it may still be going on")
    full = error.errno in _FULL if isinstance(error, OSError) else "No space left" in str(error)
    return DriverError(Code.RESOURCE_EXHAUSTED if full else Code.INTERNAL, str(error))


def code_of_doubt(error: BaseException) -> Code | None:
    """For an error that tells nothing of what was done, itself or by one that it came of: no answer came, or the
    connection broke. None for any other.
    """
    cause: object = error
    for _ in range(_CAUSES_MAX):
        if isinstance(cause, (TimeoutError, ToolHangs)):
            return Code.DEADLINE_EXCEEDED
        if isinstance(cause, ConnectionError):
            return Code.UNAVAILABLE
        if not isinstance(cause, BaseException):
            return None
        # urllib's errors have it as their reason
        cause = cause.__cause__ or cause.__context__ or getattr(cause, "reason", None)
    return None


def _started(work: Callable[..., T], args: tuple[object, ...], options: dict[str, object]) -> asyncio.Future[T]:
    """A daemon thread per call: the process can end though one of them hangs, and no pool can be full of such.

    Virtual time waits for no thread, so there the work is done before this returns.
    """
    loop = asyncio.get_running_loop()
    if isinstance(loop, VirtualLoop):
        return loop.run_in_executor(None, functools.partial(work, *args, **options))
    outcome: asyncio.Future[T] = loop.create_future()
    context = contextvars.copy_context()

    def run() -> None:
        try:
            result = context.run(work, *args, **options)
        except BaseException as error:  # whatever it is, it belongs to the caller
            _tell(loop, _fail, outcome, error)
        else:
            _tell(loop, outcome.set_result, result)

    threading.Thread(target=run, name=f"driver/{getattr(work, '__name__', 'work')}", daemon=True).start()
    return outcome


def _fail(outcome: asyncio.Future[T], error: BaseException) -> None:
    """An error that a future refuses, or that would end the whole process, is the failure of this work."""
    if isinstance(error, (StopIteration, SystemExit, KeyboardInterrupt)):
        error = RuntimeError(f"{type(error).__name__}: {error}")
    outcome.set_exception(error)


def _tell(loop: asyncio.AbstractEventLoop, tell: Callable[..., object], *args: object) -> None:
    with contextlib.suppress(RuntimeError):  # the loop has ended: nobody waits any more
        loop.call_soon_threadsafe(tell, *args)
