"""Who is measured: the programs of a contender, at work beside one driver, and what the kernel says of each."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.contender import NO_LIMIT, LoadDriver, cpu_s, memory_mib
from bench.scale.lived import DRIVER
from bench.scale.turns import longest_s, read
from tests.support.control_plane import ControlPlane
from tests.support.programs import Program
from tests.support.real import binary

SCRIPTS = Path(sys.executable).parent
GO, EACH, ONE = "Go", "Mooring", "Mooring, one process"
SIDECARS = ("csi-attacher", "csi-provisioner", "csi-resizer", "csi-snapshotter")
CONTROLLERS = ("snapshot-controller",)
MANAGER = (
    "persistentvolume-attach-detach-controller",
    "persistentvolume-binder-controller",
    "persistentvolumeclaim-protection-controller",
    "persistentvolume-protection-controller",
)
ALL_IN_ONE = "attacher,provisioner,resizer,snapshotter,snapshot-controller,attachdetach,binder"
_RENAMED = 'hostname "$0" && exec "$@"'
_BINDING = ",".join(MANAGER[1:])
_KUBE_ELECTION = "--leader-elect"
ATTACHER = "csi-attacher"
LEASE_OF_ONE = f"mooring-controller-{DRIVER.replace('.', '-')}"
ATTACH_DETACH = {GO: "attach/detach and binder", EACH: "attach/detach"}


@dataclasses.dataclass(frozen=True)
class Part:
    """One process. name: what the tables call it, the same for both contenders where both have it. has_loop: its turns
    can be measured.

    election: the flag by which it stands for election; its last one counts.
    """

    name: str
    command: tuple[str, ...]
    has_driver: bool = False
    has_loop: bool = True
    election: str = "--leader-election"


def parts(contender: str) -> tuple[Part, ...]:
    """The processes of a contender; the client's own limits are off in all."""
    if contender == GO:
        quick = ("--kube-api-qps=1000", "--kube-api-burst=2000")
        manager = (str(binary("kube-controller-manager")), f"--controllers={','.join(MANAGER)}", *quick)
        return (
            *(Part(name, (str(binary(name)), *NO_LIMIT), has_driver=True, has_loop=False) for name in SIDECARS),
            *(Part(name, (str(binary(name)), *NO_LIMIT), has_loop=False) for name in CONTROLLERS),
            Part(
                ATTACH_DETACH[GO],
                (*manager, "--leader-elect=false", "--secure-port=0"),
                has_loop=False,
                election=_KUBE_ELECTION,
            ),
        )
    mooring = str(SCRIPTS / "mooring")
    if contender == ONE:
        command = (mooring, "controller", f"--enable={ALL_IN_ONE}", f"--binder-controllers={_BINDING}")
        return (Part("all in one", command, has_driver=True),)
    return (
        *(Part(name, (str(SCRIPTS / name), *NO_LIMIT), has_driver=True) for name in SIDECARS),
        *(Part(name, (str(SCRIPTS / name), *NO_LIMIT)) for name in CONTROLLERS),
        Part(
            ATTACH_DETACH[EACH], (mooring, "attachdetach", "--leader-elect=false", *NO_LIMIT), election=_KUBE_ELECTION
        ),
        Part("binder", (mooring, "binder", f"--controllers={_BINDING}", *NO_LIMIT)),
    )


class Process:
    """One of them at work. Times in seconds of its processor time, memory in MiB. tag: a name for its files."""

    def __init__(self, part: Part, plane: ControlPlane, tag: str, flags: Sequence[str]) -> None:
        self.name = part.name
        self._turns = plane.folder / f"{tag}.turns"
        metered = (sys.executable, "-m", "bench.scale.turns", str(self._turns)) if part.has_loop else ()
        self._program = Program([*metered, *part.command, *flags], plane.folder / f"{tag}.log", _environment())
        self.pid = self._program.pid

    def send(self, sig: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._program.send(sig)

    def end(self) -> None:
        self._program.kill()

    def log_tail(self) -> str:
        return f"-- {self._program.log.name}\n{self._program.log_tail(15)}"

    def longest_turn_s(self, began: float, ended: float) -> float:
        """Of its event loop, between two moments of the monotonic clock."""
        return longest_s(read(self._turns), began, ended)

    @property
    def cpu_s(self) -> float:
        self.assert_alive()
        return cpu_s(self.pid)

    def assert_alive(self) -> None:
        self._program.assert_alive()

    @property
    def rss_mib(self) -> float:
        return memory_mib(self.pid, "VmRSS")

    @property
    def peak_mib(self) -> float:
        """The most that was ever resident."""
        return memory_mib(self.pid, "VmHWM")


class Peers:
    """A contender's programs on a control plane."""

    def __init__(self, processes: Sequence[Process], driver: LoadDriver) -> None:
        self.processes, self.driver = processes, driver

    @property
    def cpu_s(self) -> float:
        return sum(one.cpu_s for one in self.processes)

    def assert_alive(self) -> None:
        """Raises AssertionError with the log of one that has ended."""
        for one in self.processes:
            one.assert_alive()

    def longest_turn_s(self, began: float, ended: float) -> float:
        """Of any of their event loops, between two moments of the monotonic clock."""
        return max(one.longest_turn_s(began, ended) for one in self.processes)

    @property
    def pids(self) -> list[int]:
        return [*(one.pid for one in self.processes), self.driver.pid]


@contextlib.contextmanager
def at_work(contender: str, plane: ControlPlane, driver_program: Path, tag: str) -> Iterator[Peers]:
    """From the start of all its programs to their end."""
    driver = LoadDriver(driver_program, plane.folder / f"{tag}.sock", DRIVER, "all")
    processes: list[Process] = []
    with _ending(processes, driver):
        for number, part in enumerate(parts(contender)):
            processes.append(_started(part, plane, driver, f"{tag}-{number}"))
        yield Peers(processes, driver)


class Replicas:
    """Programs of one kind, of which one leads; `start` adds one.

    Each has a host name of its own, which takes root: it is what Go's programs tell themselves apart by.
    """

    def __init__(self, part: Part, plane: ControlPlane, driver: LoadDriver, tag: str) -> None:
        self._part, self._plane, self._driver, self._tag = part, plane, driver, tag
        self.processes: list[Process] = []

    def start(self) -> Process:
        number = len(self.processes)
        command = (
            "unshare",
            "--uts",
            "sh",
            "-c",
            _RENAMED,
            f"replica-{number}",
            *self._part.command,
            self._part.election,
        )
        part = dataclasses.replace(self._part, command=command, has_loop=False)
        made = _started(part, self._plane, self._driver, f"{self._tag}-{number}")
        self.processes.append(made)
        return made


@contextlib.contextmanager
def replicas(contender: str, name: str, plane: ControlPlane, driver_program: Path, tag: str) -> Iterator[Replicas]:
    """Of the contender's program of this name. All end with it."""
    (part,) = (part for part in parts(contender) if part.name == name)
    driver = LoadDriver(driver_program, plane.folder / f"{tag}.sock", DRIVER, "all")
    made = Replicas(part, plane, driver, tag)
    with _ending(made.processes, driver):
        yield made


def _started(part: Part, plane: ControlPlane, driver: LoadDriver, tag: str) -> Process:
    address = (f"--csi-address={driver.socket}",) if part.has_driver else ()
    return Process(part, plane, tag, (f"--kubeconfig={plane.kubeconfig('contender')}", *address))


@contextlib.contextmanager
def _ending(processes: Sequence[Process], driver: LoadDriver) -> Iterator[None]:
    """Ends them; the ends of their logs are shown when what is measured fails."""
    try:
        yield
    except BaseException:
        print("\n".join(process.log_tail() for process in processes), file=sys.stderr)
        raise
    finally:
        for process in processes:
            process.end()
        driver.stop()


def _environment() -> dict[str, str]:
    """Ours: with bytecode on disk, as in the image."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
