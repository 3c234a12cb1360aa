"""`mooring driver hostpath`: the reference driver as a process of its own, for a sidecar of anybody's."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from mooring.api.quantity import parse_quantity
from mooring.base.errors import ConfigError
from mooring.base.flagkinds import BOOL, INT, STRING, Kind
from mooring.base.flags import Parsed, UsageError, flag
from mooring.cli.process import Command, Setup, run_command
from mooring.cli.tables import ProcessFlags

USAGE: Final = "usage: mooring driver hostpath --state FOLDER --node-id NAME [flags]; mooring driver hostpath --help lists them\n"


def _read_bytes(text: str) -> int:
    value = parse_quantity(text).value
    if value <= 0 or value != value.to_integral_value():
        raise ValueError("not a whole number of bytes above zero")
    return int(value)


_BYTES: Final[Kind[int]] = Kind("quantity", _read_bytes, "bytes as a quantity, as in 10Gi or 500M", str)
NAMES: Final[Kind[tuple[str, ...]]] = Kind(
    "name", lambda text: tuple(text.split(",")), "names, separated by commas", lambda _: "", merge=lambda one, more: (*one, *more)
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class HostPathFlags(ProcessFlags):
    """The reference driver's flags; where csi-driver-host-path has one for the same thing, its name is taken too."""

    endpoint: str = flag("endpoint", STRING, "", "The unix socket to serve on, as in unix:///run/csi.sock. Empty: $CSI_ENDPOINT.")
    state: str = flag("state", STRING, "", "The folder for volumes and state. Made when it is missing.")
    node_ids: tuple[str, ...] = flag("node-id", NAMES, (), "A node that volumes can be published on; may be given more than once.")
    driver_name: str = flag("driver-name", STRING, "", "The name that the driver goes by. Empty: hostpath.csi.mooring.")
    capacity_bytes: int = flag("capacity", _BYTES, 1 << 40, "All volumes together have this size at the most.")
    volume_bytes_max: int = flag("max-volume-size", _BYTES, 1 << 40, "One volume has this size at the most.")
    attach_max: int = flag("attach-limit", INT, 0, "Volumes on one node at the most; 0 is no limit.")
    attach: bool = flag("attach", BOOL, True, "Publish volumes on nodes. Write --attach=false for a driver that needs no attach.")


def _check(parsed: Parsed[HostPathFlags]) -> None:
    flags = parsed.flags
    if not flags.state:
        raise ConfigError("state: required, the folder for volumes and state")
    if not flags.node_ids or "" in flags.node_ids:
        raise ConfigError("node-id: required, the name of at least one node, as in --node-id=node-1")
    if flags.attach_max < 0:
        raise ConfigError(f"attach-limit: must not be negative, got {flags.attach_max}")
    if not (flags.endpoint or os.environ.get("CSI_ENDPOINT")):
        raise ConfigError("endpoint: required, as in --endpoint=unix:///run/csi.sock or CSI_ENDPOINT=unix:///run/csi.sock")


COMMAND: Final[Command[HostPathFlags]] = Command(HostPathFlags, check=_check)


def run(argv: Sequence[str], prog: str) -> int:
    """argv: the words after `mooring driver`. Gives the exit code."""
    if argv[:1] != ["hostpath"]:
        if argv[:1] in (["--help"], ["-h"], ["-help"]):
            sys.stdout.write(USAGE)
            return 0
        sys.stderr.write(f"unknown driver {argv[0]!r}: there is hostpath\n{USAGE}" if argv else USAGE)
        return UsageError("").exit_code
    return run_command(COMMAND, argv[1:], f"{prog} hostpath", lambda setup: asyncio.run(_serve(setup)))


async def _serve(setup: Setup[HostPathFlags]) -> int:
    from mooring.base.chance import Chance
    from mooring.cli.stopping import stop_signals
    from mooring.driver.hostpath import DRIVER_NAME, HostPath
    from mooring.driver.publishing import Limits
    from mooring.driver.server import serving

    flags = setup.flags
    limits = Limits(capacity_bytes=flags.capacity_bytes, volume_bytes_max=flags.volume_bytes_max, attach_max=flags.attach_max)
    driver = HostPath(
        Path(flags.state),
        node_ids=flags.node_ids,
        chance=Chance(),
        name=flags.driver_name or DRIVER_NAME,
        limits=limits,
        attach=flags.attach,
    )
    with driver, stop_signals() as stop:
        async with serving(driver, flags.endpoint or os.environ["CSI_ENDPOINT"]):
            await stop.wait()
    return 0
