"""The two ports of a sidecar over the network, made from its flags: the API server by HTTP, the driver by gRPC."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Protocol, TypeVar

from mooring.base.clock import Clock
from mooring.base.metrics import Metrics
from mooring.base.randomness import Random
from mooring.cli.clusters import client, load_config, load_config_as_kubectl
from mooring.cli.process import Machine, Setup
from mooring.cli.settings import request_limit
from mooring.cli.tables import SidecarFlags
from mooring.csi.client import Client
from mooring.csi.metrics import CallMetrics
from mooring.csi.wire_driver import WireDriver
from mooring.kube.client.config import ClusterConfig
from mooring.kube.cluster import Cluster

F = TypeVar("F", bound=SidecarFlags)


class Ports(Protocol):
    """A sidecar's ways to the world; tests bring their own."""

    def cluster(self) -> AbstractAsyncContextManager[Cluster]:
        """A client of its own at each call. Raises ConfigError."""

    def driver(self, metrics: CallMetrics) -> AbstractAsyncContextManager[Client]:
        """The driver, connected. Raises ConfigError."""


class NetworkPorts:
    """name: begins the user agent. log_length_max: characters of a logged gRPC response, 0 or less for all. server: as
    in load_config.

    as_kubectl: the kubeconfig is found as kubectl finds it, where no flag names one.
    """

    def __init__(
        self,
        name: str,
        setup: Setup[F],
        machine: Machine,
        log_length_max: int,
        server: str = "",
        *,
        clock: Clock,
        randomness: Random,
        metrics: Metrics,
        as_kubectl: bool = False,
    ) -> None:
        self._server, self._as_kubectl = server, as_kubectl
        self._flags, self._machine, self._log_length_max = setup.flags, machine, log_length_max
        self._limit = request_limit(setup.flags, setup.given)
        self._name = name
        self._clock, self._randomness, self._metrics = clock, randomness, metrics
        self._config: ClusterConfig | None = None

    @contextlib.asynccontextmanager
    async def cluster(self) -> AsyncIterator[Cluster]:
        if self._config is None:
            path, machine = self._flags.kubeconfig, self._machine
            self._config = (
                load_config_as_kubectl(path, machine) if self._as_kubectl else load_config(path, machine, self._server)
            )
        made = client(
            self._name, self._config, self._limit, clock=self._clock, randomness=self._randomness, metrics=self._metrics
        )
        async with made:
            yield made

    @contextlib.asynccontextmanager
    async def driver(self, metrics: CallMetrics) -> AsyncIterator[Client]:
        driver = WireDriver(
            self._flags.csi_address, clock=self._clock, metrics=metrics, log_length_max=self._log_length_max
        )
        await driver.connect(self._flags.connection_timeout_s)
        try:
            yield driver
        finally:
            await driver.close()
