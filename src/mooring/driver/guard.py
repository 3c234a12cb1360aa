"""The guard before a driver's method: CSI's rules, one operation per volume, errors without secrets, the record."""

from __future__ import annotations

import asyncio
import inspect
import traceback
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
from google.protobuf.message import Message

from mooring.base.clock import Clock, ending_in, time_left_s
from mooring.base.log import logger
from mooring.base.logform import Lines
from mooring.conform.book.answers import faults
from mooring.conform.book.subject import Subject, changed_by
from mooring.csi.driver import Rpc
from mooring.csi.errors import DriverError
from mooring.csi.redact import redacted, scrubbed
from mooring.driver.blocking import code_of_doubt, held_until_all_ends
from mooring.driver.checks import Advertised, oversize, precondition_fault, request_fault
from mooring.driver.steps import measured
from mooring.wire.grpc.codes import Code

_log = logger(__name__)

Method = Callable[[Any], Awaitable[Any]]


class CallRecord(msgspec.Struct, frozen=True):
    """One call that has ended. request, response: one-line JSON without secrets; response is "" when error is set."""

    rpc: str
    request: str
    response: str
    error: DriverError | None
    seconds: float


Observer = Callable[[CallRecord], None]


class Guard:
    """Answers calls with a driver's methods. May be entered by many callers at once on one event loop."""

    def __init__(self) -> None:
        self._running: dict[Subject, str] = {}  # what is locked, and the call that holds it
        self._observers: list[tuple[Observer, Clock]] = []
        self._oversize: set[str] = set()  # calls that were told to be so

    def observe(self, observer: Observer, clock: Clock) -> None:
        """Calls the observer after each call. clock: for the calls' times."""
        self._observers.append((observer, clock))

    async def call(
        self, rpc: Rpc[Any, Any], method: Method | None, advertised: Advertised, request: Message
    ) -> Message:
        """The answer of one call. method: None when the driver has none. Raises DriverError; CancelledError passes and
        frees the volume.
        """
        _log.info(5, "GRPC call", method=rpc.name, request=_shown(request))
        started = [clock.now() for _, clock in self._observers]
        response, error = None, None
        try:
            response = await self._answer(rpc, method, advertised, request)
            return response
        except DriverError as failure:
            error = failure
            raise
        except asyncio.CancelledError:
            error = DriverError(Code.CANCELED, "the caller gave up")
            raise
        finally:
            _log.info(5, "GRPC response", method=rpc.name, response=_shown(response), err=str(error or ""))
            for (observer, clock), since in zip(self._observers, started, strict=False):
                shown = "" if response is None else redacted(response)
                observer(CallRecord(rpc.name, redacted(request), shown, error, clock.now() - since))

    async def _answer(
        self, rpc: Rpc[Any, Any], method: Method | None, advertised: Advertised, request: Message
    ) -> Message:
        if method is None:
            raise DriverError(Code.UNIMPLEMENTED, f"this driver has no {rpc.name}")
        if fault := request_fault(request, advertised):
            raise DriverError(Code.INVALID_ARGUMENT, fault)
        if fault := precondition_fault(request, advertised):
            raise DriverError(Code.FAILED_PRECONDITION, fault)
        if rpc.name not in self._oversize and (fault := oversize(request)):
            self._oversize.add(rpc.name)
            _log.warning("A request has more than CSI allows, and is carried out", method=rpc.name, fault=fault)
        with self._only_one(rpc, request):
            response: Message = await _carried_out(rpc, method, request)
        fault = (
            _fault(response)
            if isinstance(response, rpc.response_type)
            else f"it is no {rpc.response_type.DESCRIPTOR.name}"
        )
        if fault is None:
            return response
        _log.error("The driver's answer breaks the rules of CSI", method=rpc.name, fault=fault)
        raise DriverError(Code.INTERNAL, f"the driver's answer to {rpc.name} breaks the rules of CSI: {fault}")

    @contextmanager
    def _only_one(self, rpc: Rpc[Any, Any], request: Message) -> Iterator[None]:
        """Holds what the call works on, until its work in threads has ended, too. Raises Aborted while another call
        holds it, as CSI asks: the caller comes back.
        """
        if (subject := changed_by(rpc, request)) is None:
            yield
            return
        if subject in self._running:
            raise DriverError(Code.ABORTED, f"{self._running[subject]} is pending for {subject}")
        self._running[subject] = rpc.name
        with held_until_all_ends(lambda: self._running.pop(subject)):
            yield


def _fault(response: Message) -> str | None:
    """The first rule that an answer breaks by itself, None for none."""
    return next((f"{found} ({rule.number})" for rule, found in faults(response)), None)


async def patiently(rpc: Rpc[Any, Any], method: Method, limit_s: float | None, request: Message) -> Any:
    """The method's answer. A caller that waits without end is answered after the limit, so that its volume does not
    stay locked.
    """
    if limit_s is None or time_left_s() is not None:
        return await method(request)
    try:
        async with asyncio.timeout(limit_s) as limit:
            with ending_in(limit_s):
                return await method(request)
    except TimeoutError:
        if not limit.expired():
            raise
        raise DriverError(Code.DEADLINE_EXCEEDED, f"{rpc.name} took longer than {limit_s:g} s") from None


async def _carried_out(rpc: Rpc[Any, Any], method: Method, request: Message) -> Any:
    """The method's answer. Raises DriverError only, with no secret of the request in it."""
    try:
        work = method(request)
        if inspect.iscoroutine(work):
            return await measured(work, rpc.attribute, asyncio.get_running_loop().time)
        return await work
    except (Exception, SystemExit) as error:  # the top of a driver's work: whatever its author forgot is an answer
        if isinstance(known := _known(error), DriverError):
            raise DriverError(known.code, scrubbed(known.message, request) or f"{rpc.name} failed") from None
        story = "".join(traceback.format_exception(error))
        _log.error("The driver failed", method=rpc.name, traceback=Lines(scrubbed(story, request)))
        raise DriverError(
            code_of_doubt(known) or Code.INTERNAL,
            f"{rpc.name} failed with {type(known).__name__}; the driver's log tells more",
        ) from None


def _known(error: BaseException) -> BaseException:
    """The one that tells most: of a group, as by asyncio.TaskGroup, the first DriverError in it, else its first."""
    while isinstance(error, BaseExceptionGroup):
        found, _ = error.split(DriverError)
        error = (found or error).exceptions[0]
    return error


def _shown(message: Message | None) -> str:
    """Redacted text, made lazily."""
    return redacted(message) if message is not None and _log.enabled(5) else ""
