"""Makes the connection to the API server from flags. This module loads no other client."""

from __future__ import annotations

import dataclasses
import platform
from typing import Final

from mooring.base.clock import Clock
from mooring.base.errors import ConfigError
from mooring.base.metrics import Metrics
from mooring.base.randomness import Random
from mooring.cli.process import VERSION, Machine
from mooring.cli.settings import RequestLimit
from mooring.kube.client import kubeconfig
from mooring.kube.client.config import ClusterConfig
from mooring.kube.client.http import HttpCluster
from mooring.kube.client.retrying import ClientMetrics


def load_config(path: str, machine: Machine, server: str = "") -> ClusterConfig:
    """path: "" for the pod's service account (KUBECONFIG is not read, as upstream). server: goes before the file's.
    Raises ConfigError.
    """
    if server and not server.startswith(("https://", "http://")):
        raise ConfigError(f'master: "{server}" must begin with https:// or http://')
    if path:
        found = kubeconfig.load(path, machine.environ)
        return dataclasses.replace(found, server=server.rstrip("/")) if server else found
    if server:
        return ClusterConfig(server.rstrip("/"), source="--master")
    return kubeconfig.in_cluster(machine.environ, str(machine.service_account))


def load_config_as_kubectl(path: str, machine: Machine) -> ClusterConfig:
    """The same for programs of our own: KUBECONFIG and ~/.kube/config count where no path is given. Raises
    ConfigError.
    """
    return kubeconfig.load(path, machine.environ)


METADATA: Final = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
"""Asks for an object's metadata alone."""


def client(
    name: str,
    config: ClusterConfig,
    limit: RequestLimit,
    *,
    clock: Clock,
    randomness: Random,
    metrics: Metrics,
    accept: str = "application/json",
) -> HttpCluster:
    """A client that is not connected yet. name: begins the user agent. accept: the form in which objects are asked
    for.
    """
    return HttpCluster(
        config,
        clock=clock,
        randomness=randomness,
        user_agent=f"{name}/{VERSION} ({platform.system().lower()}/{platform.machine()}) mooring",
        qps=limit.qps,
        burst=limit.burst,
        metrics=metrics.once(ClientMetrics),
        accept=accept,
    )


def client_for_people(
    name: str, path: str, machine: Machine, *, clock: Clock, accept: str = "application/json"
) -> HttpCluster:
    """The same for a command that somebody runs by hand: where kubectl would go, and without a limit. Raises
    ConfigError.
    """
    config = load_config_as_kubectl(path, machine)
    return client(
        name, config, RequestLimit(None, 0), clock=clock, randomness=Random(), metrics=Metrics(), accept=accept
    )
