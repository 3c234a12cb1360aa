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
from collections.abc import Callable
from typing import Final, ParamSpec, TypeVar

from mooring.base.virtual_loop import VirtualLoop
from mooring.csi.errors import DriverError
from mooring.mounts.system import ToolFailed
from mooring.mounts.targets import Occupied
from mooring.wire.grpc.codes import Code

P = ParamSpec("P")
T = TypeVar("T")

_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


async def blocking(work: Callable[P, T], /, *args: P.args, **options: P.kwargs) -> T:
    """The result of the work, done in a thread of its own.

    A caller that gives up is told so only after the work's end: a mount that is half made has no owner, and until then the volume stays
    locked. A thread that hangs holds up this volume alone; a call that is cancelled twice, as all are when the process ends, does not wait.
    Raises DriverError for OSError (ResourceExhausted where a disk is full), a tool that failed (the same) and paths that something else is
    at (AlreadyExists); other exceptions pass.
    """
    running = _started(work, args, options)
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


def driver_error(error: OSError | ToolFailed | Occupied) -> DriverError:
    """The error of a call that failed by this one."""
    if isinstance(error, Occupied):
        return DriverError(Code.ALREADY_EXISTS, str(error))
    full = error.errno in _FULL if isinstance(error, OSError) else "No space left" in str(error)
    return DriverError(Code.RESOURCE_EXHAUSTED if full else Code.INTERNAL, str(error))


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
    outcome.set_exception(RuntimeError("StopIteration") if isinstance(error, StopIteration) else error)


def _tell(loop: asyncio.AbstractEventLoop, tell: Callable[..., object], *args: object) -> None:
    with contextlib.suppress(RuntimeError):  # the loop has ended: nobody waits any more
        loop.call_soon_threadsafe(tell, *args)
