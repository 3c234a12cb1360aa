"""`Cluster` over HTTP: the client that controllers run on in production.

    async with HttpCluster(load("", os.environ), clock=LoopClock(), randomness=Random(), user_agent="me/1.0") as
    cluster:
        page = await cluster.list(VOLUME_ATTACHMENTS, limit=500)
        async with contextlib.aclosing(cluster.watch(VOLUME_ATTACHMENTS, resource_version=page.resource_version)) as
        events:
            async for event in events:
                ...

One connection per running request and per watch, kept for the next; HTTP/1.1.
"""

from __future__ import annotations

from types import TracebackType
from urllib.parse import urlsplit

from mooring.base.clock import Clock
from mooring.base.errors import ConfigError
from mooring.base.randomness import Random
from mooring.kube.client.config import ClusterConfig, Pem
from mooring.kube.client.credentials import credentials_of
from mooring.kube.client.rate_limit import Throttle
from mooring.kube.client.rest import RestCluster
from mooring.kube.client.retrying import CONCURRENCY_MAX, REQUEST_TIMEOUT_S, ClientMetrics, RetryingClient
from mooring.kube.client.tls import TlsContexts
from mooring.kube.client.transport import HttpTransport, place_of


class HttpCluster(RestCluster):
    """The API server at the other end of a network. Make it and use it inside one event loop; close it, or use
    `async with`.

    qps, burst: client-go's token bucket, without one by default: qps None or negative is no limit, 0 is 5, above 0 it
    needs a burst above 0. request_timeout_s: of one try; a list has four times as long. concurrency_max: requests at a
    time, watches and DELETEs not counted.
    """

    def __init__(
        self,
        config: ClusterConfig,
        *,
        clock: Clock,
        randomness: Random,
        user_agent: str,
        qps: float | None = None,
        burst: int = 0,
        request_timeout_s: float = REQUEST_TIMEOUT_S,
        concurrency_max: int = CONCURRENCY_MAX,
        metrics: ClientMetrics | None = None,
        accept: str = "application/json",
    ) -> None:
        """accept: the form of objects. Raises ConfigError for certificates that can't be used."""
        self.config = config
        contexts = TlsContexts(config.tls, clock) if config.server.startswith("https:") else None
        client = RetryingClient(
            HttpTransport(config, contexts),
            credentials_of(config.user, clock, contexts.use_certificate if contexts else _no_certificate),
            host=urlsplit(config.server).netloc,
            headers=(
                ("Accept", accept),
                ("Accept-Encoding", "gzip" if config.compressed else "identity"),
                ("User-Agent", user_agent),
                *config.user.headers,
            ),
            clock=clock,
            randomness=randomness,
            throttle=Throttle(qps, burst, clock),
            timeout_s=request_timeout_s,
            concurrency_max=concurrency_max,
            metrics=metrics,
        )
        super().__init__(client, clock, _stranger(config))

    async def open(self) -> None:
        """Gets the first credentials, so that a plugin that fails is known at the start. Raises ConfigError. Opens no
        connection.
        """
        await self._client.open()

    async def close(self) -> None:
        """Closes all connections; what is still running raises Unreachable."""
        await self._client.close()

    async def __aenter__(self) -> HttpCluster:
        try:
            await self.open()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


def _no_certificate(certificate: Pem, _key: Pem) -> None:
    raise ConfigError(f"{certificate.where}: a client certificate is of no use with an http:// server")


def _stranger(config: ClusterConfig) -> str:
    """The reason that the server rejects our credentials, and the next thing to check. Names credentials, shows
    none.
    """
    user = config.user
    if user.token_file:
        shown = f'the token in "{user.token_file}"'
    elif user.token:
        shown = "the token"
    elif user.username:
        shown = f'the password of "{user.username}"'
    elif user.exec_plugin is not None:
        shown = f'what "{user.exec_plugin.command}" gave'
    elif config.tls.certificate is not None:
        shown = "the client certificate"
    else:
        return (
            f"{place_of(config)} wants credentials, and there are none; give a kubeconfig whose context has a user "
            "with some"
        )
    return f"{place_of(config)} did not take {shown}; has it expired, or is it another cluster's?"
