"""Controllers as a program: the cluster that kubectl would talk to, signals, and an orderly end."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

from mooring.base import log, loops
from mooring.base.clock import LoopClock
from mooring.base.errors import ConfigError
from mooring.base.log import logger
from mooring.base.metrics import Metrics
from mooring.base.randomness import Random
from mooring.base.stopping import stop_signals
from mooring.control.manager import Work, run_until
from mooring.control.runtime import Runtime
from mooring.kube.client.http import HttpCluster
from mooring.kube.client.kubeconfig import load

_log = logger(__name__)


def run(name: str, make: Callable[[Runtime], Work], *, kubeconfig: str = "", context: str = "", verbosity: int = 0) -> None:
    """Runs controllers until SIGTERM or Ctrl-C: no new key is begun, the work in hand ends. A second signal ends the process at once.

    name: the program's, for the API server and messages. make: builds the controllers. kubeconfig: a file; "" finds one as kubectl does.
    context: in it, "" for the current one. verbosity: of the log on stderr, 0 for warnings and errors, 2 for what was done, 4 for why.
    Exits with 1 and one line on stderr when there is no way to the cluster.
    """
    log.configure(verbosity=verbosity)
    try:
        loops.run(_run(name, make, kubeconfig, context))
    except ConfigError as error:
        sys.exit(f"{name}: {error}")


async def _run(name: str, make: Callable[[Runtime], Work], kubeconfig: str, context: str) -> None:
    clock, randomness, metrics = LoopClock(), Random(), Metrics()
    config = load(kubeconfig, os.environ, context=context)
    _log.info(0, "Starting", program=name, server=config.server, found_in=config.source)
    with stop_signals() as stop:
        async with HttpCluster(config, clock=clock, randomness=randomness, user_agent=name) as cluster:
            await run_until(stop, make(Runtime(cluster, clock, randomness, metrics)))
