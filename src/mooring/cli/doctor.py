"""`mooring doctor`: what is wrong with the set-up of CSI drivers, in a cluster or in the files of a release. Reads
only.

| exit code | when |
|---|---|
| 0 | nothing is wrong; notes count as nothing |
| 3 | there are errors or warnings |
| 2 | a command line that is wrong |
| 1 | it could not look, or the files have no object that it knows |
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, TextIO

from mooring.base.flagkinds import FILES, word_of
from mooring.base.flags import Parsed, UsageError, flag
from mooring.cli.people import answer_of, check_output, run_for_people, width_of
from mooring.cli.process import Command, Machine
from mooring.cli.tables import AsKubectlFlags, ProcessFlags

if TYPE_CHECKING:
    from mooring.inspect.doctor.inventory import Inventory
    from mooring.kube.cluster import Cluster

CLEAN, CANNOT, FOUND = 0, 1, 3
OUTPUTS: Final = ("text", "json", "yaml")

_EXIT_CODES: Final = """
Exit codes: 0 nothing is wrong (notes count as nothing); 3 there are errors or
warnings; 2 the command line is wrong; 1 it could not look, or the files have
no object that it knows.
"""


@dataclasses.dataclass(frozen=True, kw_only=True)
class DoctorFlags(AsKubectlFlags, ProcessFlags):
    f: tuple[str, ...] = flag(
        "f",
        FILES,
        (),
        "Files or folders of a release, to judge in place of a cluster, with commas between; - is stdin.",
    )
    output: str = flag("output", word_of(*OUTPUTS), "text", "text, json or yaml.")
    o: str = flag("o", word_of(*OUTPUTS), "", "The same as --output.")


def _check(parsed: Parsed[DoctorFlags]) -> None:
    check_output(parsed.flags.o or parsed.flags.output, *OUTPUTS)
    if "" in parsed.flags.f:  # as a path that would be the folder of the shell
        raise UsageError("f: name a file or a folder, or - for stdin; got an empty name")


COMMAND: Final[Command[DoctorFlags]] = Command(
    DoctorFlags,
    check=_check,
    epilog=_EXIT_CODES,
    about="Looks for what is wrong with the set-up of CSI drivers, before a user meets it: rights, snapshots, "
    "classes, leaders, nodes. "
    "Each finding has the line to change. Reads only, on any cluster; with -f the files of a release.",
    example="mooring doctor -f deploy/",
)


def run(argv: Sequence[str], prog: str, machine: Machine | None = None) -> int:
    """argv: the words after `mooring doctor`. Gives the exit code."""

    def serve(flags: DoctorFlags) -> int:
        if flags.f:
            return told(flags, of_files(flags.f, sys.stdin), sys.stdout)
        return answer_of(_on_the_network(flags, machine or Machine()), prog, CANNOT)

    return run_for_people(COMMAND, argv, prog, serve)


def of_files(paths: Sequence[str], stdin: TextIO) -> Inventory:
    """Leases in files are of no time: at the beginning of all, each of them is renewed. Raises ConfigError, also where
    nothing could be read.
    """
    from mooring.inspect.doctor.files import Files
    from mooring.inspect.doctor.inventory import Inventory

    inventory = Inventory(0.0, of_files=True)
    files = Files(inventory, stdin.read() if "-" in paths else "")
    for path in paths:
        files.read(path)
    if inventory.unread and not inventory.count():
        raise inventory.unread[0]
    return inventory


async def _on_the_network(flags: DoctorFlags, machine: Machine) -> int:
    from mooring.base.clock import LoopClock
    from mooring.cli.clusters import METADATA, client_for_people

    clock = LoopClock()
    async with (
        client_for_people("mooring-doctor", flags.kubeconfig, machine, clock=clock) as cluster,
        client_for_people("mooring-doctor", flags.kubeconfig, machine, clock=clock, accept=METADATA) as metadata,
    ):
        return await look(flags, cluster, metadata, clock.wall_s(), sys.stdout)


async def look(flags: DoctorFlags, cluster: Cluster, metadata: Cluster, now_s: float, stdout: TextIO) -> int:
    """metadata: the same cluster, asked for metadata alone. Gives the exit code. Raises ApiError for a server that does
    not answer.
    """
    from mooring.inspect.doctor.cluster import read_cluster
    from mooring.inspect.doctor.inventory import Inventory

    inventory = Inventory(now_s, of_files=False)
    await read_cluster(inventory, cluster, metadata)
    return told(flags, inventory, stdout)


def told(flags: DoctorFlags, inventory: Inventory, stdout: TextIO) -> int:
    """Prints what is wrong, and gives the exit code."""
    from mooring.inspect.doctor.checks import findings_in
    from mooring.inspect.doctor.finding import Severity
    from mooring.inspect.doctor.render import as_text, as_values
    from mooring.inspect.printing import as_json, as_yaml

    findings, output = findings_in(inventory), flags.o or flags.output
    if output == "text":
        stdout.write(as_text(inventory, findings, width_of(stdout)))
    else:
        stdout.write((as_json if output == "json" else as_yaml)(as_values(inventory, findings)))
    if inventory.of_files and not inventory.count():
        return CANNOT
    return FOUND if any(one.severity is not Severity.NOTE for one in findings) else CLEAN
