"""Controllers that have no driver as a process."""

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
from mooring.control.runtime import Runtime
from mooring.kube.cluster import Cluster


class ManagerLife(Life[F]):
    """name: of the program, and of its Lease. make_work: one for each term."""

    def __init__(self, name: str, setup: Setup[F], machine: Machine, make_work: Callable[[Runtime], Work]) -> None:
        super().__init__(name, setup, machine, clock=LoopClock(), randomness=Random(), metrics=Metrics())
        self._make_work = make_work
        self._config = load_config_as_kubectl(setup.flags.kubeconfig, machine)
        self._limit = request_limit(setup.flags, setup.given)
        self._known.set()

    def _connect(self) -> AbstractAsyncContextManager[Cluster]:
        return client(self._name, self._config, self._limit, clock=self._clock, randomness=self._randomness, metrics=self._metrics)

    async def _begin(self, runtime: Runtime, stack: AsyncExitStack) -> None:
        await self._lead(lambda: self._make_work(runtime), self._name, self._name)


def run_manager(name: str, setup: Setup[F], machine: Machine, make_work: Callable[[Runtime], Work]) -> int:
    """Lives until told to end; gives the exit code. Raises ConfigError, and whatever nobody expected."""

    async def live() -> None:
        await ManagerLife(name, setup, machine, make_work).until_signalled()

    loops.run(live())
    return 0
