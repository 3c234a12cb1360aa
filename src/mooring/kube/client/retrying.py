"""A request with credentials (and one more try after a 401), rate limit, Retry-After, and a bound on requests at once
(not watches, nor DELETEs).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Final, Protocol, TypeAlias, TypeVar

from prometheus_client import CollectorRegistry, Counter, Histogram

from mooring.base.clock import Clock
from mooring.base.errors import ConfigError
from mooring.base.log import logger
from mooring.base.randomness import Random
from mooring.kube.client.credentials import Credential, Credentials
from mooring.kube.client.rate_limit import Throttle, retry_after_s
from mooring.kube.client.responses import Headers, Response, WarningLog
from mooring.kube.errors import Unauthorized, Unreachable

_WAIT_BUCKETS_S: Final = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)


class ClientMetrics:
    """Counts requests by their answer, and the time that requests waited for the client's own limit. One per
    registry.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._requests = Counter(
            "rest_client_requests_total",
            "Number of HTTP requests, partitioned by status code, method, and host.",
            ("code", "host", "method"),
            registry=registry,
        )
        self._waits = Histogram(
            "rest_client_rate_limiter_duration_seconds",
            "Client side rate limiter latency in seconds. Broken down by verb, and host.",
            ("verb", "host"),
            buckets=_WAIT_BUCKETS_S,
            registry=registry,
        )
        # The library looks a series up by its labels for some 60 steps each time.
        self._request_counters: dict[tuple[int, str, str], Counter] = {}
        self._wait_series: dict[tuple[str, str], Histogram] = {}

    def answered(self, status: int, host: str, method: str) -> None:
        """status: 0 when there was no answer."""
        key = (status, host, method)
        counter = self._request_counters.get(key)
        if counter is None:
            counter = self._request_counters[key] = self._requests.labels(
                str(status) if status else "<error>", host, method
            )
        counter.inc()

    def waited(self, seconds: float, host: str, method: str) -> None:
        series = self._wait_series.get((method, host))
        if series is None:
            series = self._wait_series[method, host] = self._waits.labels(method, host)
        series.observe(seconds)


_log = logger(__name__)

REQUEST_TIMEOUT_S: Final = 30.0
LIST_PATIENCE: Final = 4
"""How many times as long as another request a list may take: a page of a large cluster, or a whole list when pages
expire.
"""
CONCURRENCY_MAX: Final = 32
"""Requests at a time, without DELETEs, which hang where an admission webhook does not answer; a caller that sends many
of these bounds them itself.
"""
RETRIES_MAX: Final = 10
"""How often a request is repeated because the server asked for it by Retry-After; client-go's number."""
RETRY_AFTER_S_MAX: Final = 60.0
"""A longer wait is left to the caller, who gets the error with its retry_after_s; so is the next one after as long
in all.
"""
_READS: Final = ("GET", "WATCH")
_RETRY_SPREAD: Final = 0.25  # those who were sent away together shall not return together
_REFUSAL_BYTES_MAX: Final = 2**20  # of a watch that was refused: a Status, or somebody's page


Pairs: TypeAlias = tuple[tuple[str, str], ...]
"""Headers to send; a name may come more than once."""


class BodyStream(Protocol):
    """An answer whose body is read while it comes."""

    @property
    def status(self) -> int: ...

    @property
    def headers(self) -> Headers: ...

    async def chunk(self, timeout_s: float) -> bytes:
        """The bytes that have arrived, b"" at the end. Raises Unreachable."""

    def close(self) -> None:
        """Drops the connection, unless the body was read to its end."""


class Transport(Protocol):
    """Carries requests to one server; each raises Unreachable and nothing else. path: begins with a slash, already
    escaped.
    """

    async def request(
        self, method: str, path: str, headers: Pairs, body: bytes | None, timeout_s: float
    ) -> Response: ...

    async def stream(self, path: str, headers: Pairs, timeout_s: float) -> BodyStream:
        """GET. timeout_s: until the headers of the answer are there."""

    async def close(self) -> None: ...


_Either = TypeVar("_Either", Response, "Response | BodyStream")


class RetryingClient:
    """Sends requests with credentials, rate limit and retries to one server for one user."""

    def __init__(
        self,
        transport: Transport,
        credentials: Credentials,
        *,
        host: str,
        headers: Pairs,
        clock: Clock,
        randomness: Random,
        throttle: Throttle,
        timeout_s: float = REQUEST_TIMEOUT_S,
        concurrency_max: int = CONCURRENCY_MAX,
        metrics: ClientMetrics | None = None,
    ) -> None:
        """host: for metrics. headers: sent with each request. timeout_s: of one try, from its sending to the answer's
        last byte; of a list LIST_PATIENCE times that.
        """
        assert timeout_s > 0
        assert concurrency_max > 0
        self.transport = transport
        self._credentials = credentials
        self._host = host
        self._fixed_headers = headers
        self._clock = clock
        self._randomness = randomness
        self._throttle = throttle
        self._timeout_s = timeout_s
        self._slots = asyncio.Semaphore(concurrency_max)
        self._metrics = metrics
        self._warnings = WarningLog()
        self._headers: dict[tuple[str, str], Pairs] = {}
        self._headers_of: Credential | None = None

    async def open(self) -> None:
        """Gets the first credentials. Raises ConfigError."""
        if self._credentials.current() is None:
            await self._credentials.fetch()

    async def close(self) -> None:
        """Closes all connections; what is still running raises Unreachable."""
        await self._credentials.close()
        await self.transport.close()

    async def ask(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        content_type: str = "",
        *,
        is_list: bool = False,
        accept: str = "",
    ) -> Response:
        """The answer, whatever its status. accept: the form of the answer, "" for that of all requests.

        Raises Unreachable, and Unauthorized when there are no credentials to be had.
        """
        timeout_s = self._timeout_s * (LIST_PATIENCE if is_list else 1)

        async def send() -> tuple[Credential, Response]:
            waited_s = await self._throttle.wait()
            async with self._slots if method != "DELETE" else contextlib.nullcontext():
                credential = await self._credential()
                status = 0
                try:
                    headers = self._headers_with(credential, content_type, accept)
                    response = await self.transport.request(method, path, headers, body, timeout_s)
                    status = response.status
                finally:
                    if self._metrics is not None:
                        self._metrics.answered(status, self._host, method)
                        self._metrics.waited(waited_s, self._host, method)
            return credential, response

        return await self._send_with_retries(send, method, path)

    async def watch(self, path: str) -> Response | BodyStream:
        """The stream that the server opened (status 200), or its refusal."""

        async def send() -> tuple[Credential, Response | BodyStream]:
            credential = await self._credential()
            stream = await self.transport.stream(path, self._headers_with(credential, ""), self._timeout_s)
            if self._metrics is not None:
                self._metrics.answered(stream.status, self._host, "GET")
            return credential, stream if stream.status == 200 else await self._refusal(stream)

        return await self._send_with_retries(send, "WATCH", path)

    async def _send_with_retries(
        self, send: Callable[[], Awaitable[tuple[Credential, _Either]]], method: str, path: str
    ) -> _Either:
        """Retries until the response is final. send: gives the response, and the credential that was sent."""
        renewed, retry_count, waited_s = False, 0, 0.0
        while True:
            credential, response = await send()
            if "Warning" in response.headers:
                self._warnings.note(response.headers)
            if response.status < 300:
                return response
            if response.status == 401 and not renewed and await self._credentials.refused(credential):
                renewed = True
                continue
            wait_s = self._wait_s(response, method)
            if wait_s is None or retry_count == RETRIES_MAX or waited_s > RETRY_AFTER_S_MAX:
                return response
            retry_count += 1
            waited_s += wait_s
            _log.info(
                2,
                "The API server asked to come back later",
                status=response.status,
                method=method,
                path=path,
                wait_s=round(wait_s, 3),
            )
            await self._clock.sleep(wait_s)

    def _wait_s(self, response: Response | BodyStream, method: str) -> float | None:
        """The delay before a retry; None when the server asks for none, or for too long a one.

        Differs from client-go, which repeats writes after a 5xx too: such a write may have happened, and a JSON patch
        that is applied twice has another result. The writer must know.
        """
        if not (response.status == 429 or (response.status >= 500 and method in _READS)):
            return None
        wait_s = retry_after_s(response.headers.get("Retry-After", ""))
        if wait_s is None or wait_s > RETRY_AFTER_S_MAX:
            return None
        return wait_s * self._randomness.uniform(1.0, 1.0 + _RETRY_SPREAD)

    async def _credential(self) -> Credential:
        """The credential for the request that is sent next. Raises Unauthorized."""
        try:
            return self._credentials.current() or await self._credentials.fetch()
        except ConfigError as error:
            raise Unauthorized(str(error), reason="Unauthorized") from error

    async def _refusal(self, stream: BodyStream) -> Response:
        """The refusal of a watch, its body read within the time and size of a small answer."""
        body = b""
        deadline = self._clock.now() + self._timeout_s
        try:
            while len(body) <= _REFUSAL_BYTES_MAX and (chunk := await stream.chunk(deadline - self._clock.now())):
                body += chunk
        except Unreachable:
            pass  # the status line says enough
        finally:
            stream.close()
        return Response(stream.status, stream.headers, body)

    def _headers_with(self, credential: Credential, content_type: str, accept: str = "") -> Pairs:
        """The headers, made once per credential and media types: they are the same for thousands of requests."""
        if self._headers_of is not credential:
            self._headers, self._headers_of = {}, credential
        headers = self._headers.get((content_type, accept))
        if headers is None:
            own = (("Content-Type", content_type), ("Accept", accept), ("Authorization", credential.authorization))
            fixed = (pair for pair in self._fixed_headers if not (accept and pair[0] == "Accept"))
            headers = self._headers[content_type, accept] = (*fixed, *(pair for pair in own if pair[1]))
        return headers
