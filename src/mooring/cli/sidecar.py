"""A sidecar as a process: its loop, its signals, its exit code.

    sidecar = Sidecar(name="csi-attacher", ..., make_work=...)      what one sidecar adds
    run_sidecar(sidecar, setup, machine)                            everything else; gives the exit code

SIGTERM or SIGINT: the life ends in good order (`cli/life.py`), exit code 0. A second signal: exit code 1 at once. A driver that was
replaced by another one: exit code 1, and a note for the kubelet.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Coroutine, Iterator
from typing import Any

from mooring.base.clock import LoopClock
from mooring.base.log import logger
from mooring.base.loops import loop_factory
from mooring.base.metrics import Metrics
from mooring.base.randomness import Chance
from mooring.cli.life import Context, F, Life, Sidecar, Work
from mooring.cli.ports import NetworkPorts
from mooring.cli.process import Machine, Setup
from mooring.csi.codes import DriverError
from mooring.csi.session import LOST_TEXT, DriverLost

__all__ = ["Context", "Sidecar", "Work", "run_sidecar"]

_log = logger(__name__)


def run_sidecar(sidecar: Sidecar[F], setup: Setup[F], machine: Machine) -> int:
    """Lives until told to end; gives the exit code. Raises ConfigError, and whatever nobody expected."""
    clock, chance, metrics = LoopClock(), Chance(), Metrics()
    ports = NetworkPorts(sidecar.name, setup, machine, sidecar.log_length_max, sidecar.server, clock=clock, chance=chance, metrics=metrics)
    life = Life(sidecar, setup, machine, ports, clock=clock, chance=chance, metrics=metrics)
    return exit_code(_until_signalled(life, machine), machine)


def exit_code(main: Coroutine[Any, Any, None], machine: Machine) -> int:
    """Runs main on a loop of its own; what its end comes to."""
    try:
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            runner.run(main)
    except DriverLost:
        _log.error(LOST_TEXT)
        _note_for_the_kubelet(machine)
        return 1
    except DriverError as error:
        _log.error("CSI driver does not introduce itself", error=error)
        return 1
    return 0


def _note_for_the_kubelet(machine: Machine) -> None:
    """The kubelet shows this file's text as the reason for the end."""
    try:
        machine.termination_log.write_text(LOST_TEXT, encoding="utf-8")
        machine.termination_log.chmod(0o644)
    except OSError as error:
        _log.error("Could not write the termination log", error=error, file=str(machine.termination_log))


async def _until_signalled(life: Life[F], machine: Machine) -> None:
    with _signals(life, machine):
        await life.run()
    _log.info(0, "Ended in good order")


@contextlib.contextmanager
def _signals(life: Life[F], machine: Machine) -> Iterator[None]:
    """The first signal tells the life to end, the second ends the process."""

    def signalled(number: signal.Signals) -> None:
        if life.is_ending:
            _log.warning("Second signal, exiting at once", signal=number.name)
            machine.exit_now(1)
        _log.info(0, "Received a signal, ending", signal=number.name)
        life.end()

    loop = asyncio.get_running_loop()
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    for number in before:
        loop.add_signal_handler(number, signalled, number)
    try:
        yield
    finally:
        for number, handler in before.items():
            loop.remove_signal_handler(number)
            signal.signal(number, handler)
