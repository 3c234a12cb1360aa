"""Runs controllers that need no driver, as a process."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack

from mooring.base import loops
from mooring.base.clock import LoopClock
from mooring.base.metrics import Metrics
from mooring.base.randomness import Random
from mooring.cli.clusters import client, load_config_as_kubectl
from mooring.cli.life import F, Life
from mooring.cli.process import Machine, Setup
from mooring.cli.settings import request_limit
from mooring.control.manager import Work
from mooring.control.program.terms import LeasedWork, LeasedWorks
from mooring.control.runtime import Runtime
from mooring.kube.client.config import ClusterConfig
from mooring.kube.cluster import Cluster

Load = Callable[[str, Machine], ClusterConfig]


class ManagerLife(Life[F]):
    """name: of the program. works: its works, made once the API server can be asked. load: reads --kubeconfig."""

    def __init__(
        self,
        name: str,
        setup: Setup[F],
        machine: Machine,
        works: Callable[[Runtime], LeasedWorks],
        load: Load = load_config_as_kubectl,
    ) -> None:
        super().__init__(name, setup, machine, clock=LoopClock(), randomness=Random(), metrics=Metrics())
        self._works = works
        self._config = load(setup.flags.kubeconfig, machine)
        self._limit = request_limit(setup.flags, setup.given)
        self._known.set()

    def _connect(self) -> AbstractAsyncContextManager[Cluster]:
        return client(
            self._name, self._config, self._limit, clock=self._clock, randomness=self._randomness, metrics=self._metrics
        )

    async def _begin(self, runtime: Runtime, stack: AsyncExitStack) -> None:
        await self._lead(self.traces.beside(lambda ports, _: self._works(ports))(runtime, None))


def run_manager(
    name: str,
    setup: Setup[F],
    machine: Machine,
    make_work: Callable[[Runtime], Work],
    *,
    lock_name: str = "",
    load: Load = load_config_as_kubectl,
) -> int:
    """Lives until told to end, with one work; gives the exit code. lock_name: of the Lease, "" for the program's name.

    Raises ConfigError, and whatever nobody expected.
    """
    works = lambda runtime: LeasedWorks((LeasedWork(name, lock_name or name, lambda: make_work(runtime)),))  # noqa: E731
    return run_works(name, setup, machine, works, load=load)


def run_works(
    name: str,
    setup: Setup[F],
    machine: Machine,
    works: Callable[[Runtime], LeasedWorks],
    *,
    load: Load = load_config_as_kubectl,
) -> int:
    """As run_manager, with the works that `works` gives."""

    async def live() -> None:
        await ManagerLife(name, setup, machine, works, load).until_signalled()

    loops.run(live())
    return 0
