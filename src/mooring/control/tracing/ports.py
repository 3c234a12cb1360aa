"""The ports of a program with traces beside them: writes to the API server and calls of the driver become spans, reads
are learned from.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any, Final, TypeVar

import msgspec

from mooring.api.meta import Kind
from mooring.control.runtime import Runtime
from mooring.control.tracing.kinship import Place, place_asked
from mooring.control.tracing.steps import TEXT_MAX, Span, Tracing, Value, object_attributes
from mooring.csi.driver import A, Call, Driver, Q, Rpc
from mooring.csi.errors import DriverError
from mooring.csi.redact import scrubbed
from mooring.kube.cluster import EVERYTHING, Cluster, Page, Request, Selection, Verb, WatchEvent
from mooring.kube.errors import ApiError
from mooring.wire.grpc.codes import Code, go_name

T = TypeVar("T")

GAVE_UP: Final = "gave up waiting for the answer"
_METHODS: Final = {
    Verb.CREATE: "POST",
    Verb.POST: "POST",
    Verb.REPLACE: "PUT",
    Verb.PATCH: "PATCH",
    Verb.DELETE: "DELETE",
}


class TracingCluster(Cluster):
    def __init__(self, cluster: Cluster, tracing: Tracing) -> None:
        self._cluster, self._tracing = cluster, tracing

    async def ask(self, request: Request) -> Any:
        if request.writes:
            return await self._write(request)
        answer = await self._cluster.ask(request)
        learn = self._tracing.kinship.learn
        if request.verb is Verb.LIST and isinstance(answer, Page):
            for one in answer.items:
                learn(one)
        elif request.verb is Verb.GET:
            learn(answer)
        return answer

    async def _write(self, request: Request) -> Any:
        tracing, place = self._tracing, place_asked(request)
        span = Span(_name_of(request), tracing.now(), _attributes_of(request))
        try:
            answer = await self._cluster.ask(request)
        except ApiError as error:
            if error.status_code:
                span.attributes["http.response.status_code"] = error.status_code
            span.attributes["error.type"] = error.reason or type(error).__name__
            tracing.done(span, str(error)[:TEXT_MAX], place)
            raise
        except BaseException:
            span.attributes["error.type"] = "cancelled"
            tracing.done(span, GAVE_UP, place)
            raise
        tracing.kinship.learn(answer)
        tracing.done(span, None, place)
        return answer

    async def watch(
        self, kind: Kind[T], selection: Selection = EVERYTHING, *, resource_version: str, timeout_s: float = 0.0
    ) -> AsyncGenerator[WatchEvent[T], None]:
        learn = self._tracing.kinship.learn
        watch = self._cluster.watch(kind, selection, resource_version=resource_version, timeout_s=timeout_s)
        async with contextlib.aclosing(watch) as events:
            async for event in events:
                learn(event.object)
                yield event


def _name_of(request: Request) -> str:
    return f"{request.verb.value} {'/'.join(filter(None, (request.kind.plural, request.subresource)))}"


def _attributes_of(request: Request) -> dict[str, Value]:
    place: Place = (request.kind.plural, request.namespace, request.name)
    return {"mooring.object": request.place, "http.request.method": _METHODS[request.verb], **object_attributes(place)}


class TracingDriver(Driver):
    """name: the driver's."""

    def __init__(self, driver: Driver, tracing: Tracing, name: str) -> None:
        self._driver, self._tracing, self._name = driver, tracing, name

    async def invoke(self, rpc: Rpc[Q, A], request: Q, call: Call) -> A:
        return await traced_call(self._tracing, self._driver.invoke, rpc, request, call, self._name)


async def traced_call(
    tracing: Tracing,
    invoke: Callable[[Rpc[Q, A], Q, Call], Awaitable[A]],
    rpc: Rpc[Q, A],
    request: Q,
    call: Call,
    driver: str = "",
) -> A:
    """Make one call as `Driver.invoke` does, and its span. driver: its name, "" where that is not known."""
    service = rpc.path.strip("/").partition("/")[0]
    attributes: dict[str, Value] = {"rpc.system": "grpc", "rpc.service": service, "rpc.method": rpc.name}
    span = Span(f"{service}/{rpc.name}", tracing.now(), attributes | ({"mooring.driver": driver} if driver else {}))
    code, text = int(Code.CANCELED), GAVE_UP
    try:
        answer = await invoke(rpc, request, call)
        code, text = int(Code.OK), ""
    except DriverError as error:
        code, text = int(error.code), f"{go_name(error.code)}: {scrubbed(error.message, request)}"[:TEXT_MAX]
        raise
    finally:
        span.attributes["rpc.grpc.status_code"] = code
        tracing.done(span, text or None)
    return answer


def on_traced_ports(runtime: Runtime, tracing: Tracing) -> Runtime:
    """The same ports, with traces beside the API server and the controllers."""
    return msgspec.structs.replace(runtime, cluster=TracingCluster(runtime.cluster, tracing), steps=tracing)
