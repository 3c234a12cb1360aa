"""`mooring call`: any CSI call by hand, its request from words, from a file or from objects of the cluster.

| exit code | when |
|---|---|
| 0 | the driver answered OK |
| 1 | it answered with an error, or nobody answered |
| 2 | the command line or the request is wrong |
"""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from mooring.base.errors import ConfigError
from mooring.base.flagkinds import BOOL, DURATION, NAMESPACE, STRING, word_of
from mooring.base.flags import Parsed, UsageError, flag, parse
from mooring.base.text import visible_lines
from mooring.cli.limits import check_positive
from mooring.cli.people import answer_of, check_output, run_for_people
from mooring.cli.process import Command, Machine
from mooring.cli.tables import AsKubectlFlags, ProcessFlags
from mooring.node.options import ROOT

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from mooring.base.clock import Clock
    from mooring.conform.call.asking import Outcome
    from mooring.csi.driver import Rpc
    from mooring.csi.driver_capabilities import DriverCapabilities
    from mooring.inspect.built import Built

FAILED: Final = 1
OUTPUTS: Final = ("yaml", "json")
CONNECT_S_MAX: Final = 2.0
SOURCES: Final = ("from-pvc", "from-pv", "from-snapshot", "from-content")
"""The flags of which one names the object."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class CallFlags(AsKubectlFlags, ProcessFlags):
    csi_address: str = flag(
        "csi-address", STRING, "", "The driver's socket, as in unix:///csi/csi.sock. Empty: $CSI_ENDPOINT."
    )
    f: str = flag(
        "f", STRING, "", "A file with the request as YAML or JSON; - is stdin. Words of the command line come on top."
    )
    secrets_file: str = flag(
        "secrets-file",
        STRING,
        "",
        "A file with the call's secrets: a map of names to texts as YAML or JSON, or a Secret; - is stdin.",
    )
    from_pvc: str = flag(
        "from-pvc",
        STRING,
        "",
        "Build the request that Mooring would send for this claim: NAME, or NAMESPACE/NAME. Words come on top.",
    )
    from_pv: str = flag(
        "from-pv", STRING, "", "Build the request that Mooring would send for this PersistentVolume. Words come on top."
    )
    from_snapshot: str = flag(
        "from-snapshot",
        STRING,
        "",
        "Build the request that Mooring would send for this VolumeSnapshot: NAME, or NAMESPACE/NAME; for a call about a group, for "
        "this VolumeGroupSnapshot.",
    )
    from_content: str = flag(
        "from-content",
        STRING,
        "",
        "Build the request for this VolumeSnapshotContent; for a call about a group, for this VolumeGroupSnapshotContent.",
    )
    node: str = flag(
        "node", STRING, "", "With from-pvc or from-pv: the Node, for calls about an attachment, and those to a node."
    )
    pod: str = flag(
        "pod",
        STRING,
        "",
        "With from-pvc or from-pv: the Pod whose folder a node's call is about, in the claim's namespace.",
    )
    root_dir: str = flag(
        "root-dir", STRING, ROOT, "The root folder of the node's agent, whose paths the calls to a node have."
    )
    namespace: str = flag(
        "namespace", NAMESPACE, "", "The claim's namespace, or the snapshot's. Empty: the kubeconfig's."
    )
    n: str = flag("n", NAMESPACE, "", "The same as --namespace.")
    timeout_s: float = flag("timeout", DURATION, 60.0, "How long the driver may take to answer.")
    dry_run: bool = flag("dry-run", BOOL, False, "Print the request, and send nothing.")
    output: str = flag("output", word_of(*OUTPUTS), "yaml", "yaml or json.")
    o: str = flag("o", word_of(*OUTPUTS), "", "The same as --output.")


def _sources(flags: CallFlags) -> tuple[str, ...]:
    return flags.from_pvc, flags.from_pv, flags.from_snapshot, flags.from_content


def _check(parsed: Parsed[CallFlags]) -> None:
    flags = parsed.flags
    check_output(flags.o or flags.output, *OUTPUTS)
    check_positive({"timeout": flags.timeout_s}, "60s")
    sources = [name for name, given in zip(SOURCES, _sources(flags), strict=True) if given]
    if len(sources) > 1:
        raise ConfigError(
            f"{sources[1]}: the request is of one object: give --{sources[0]} or --{sources[1]}", exit_code=2
        )
    if flags.f and sources:
        raise ConfigError("f: the request is of a file or of an object: give one of them", exit_code=2)
    for name in ("node", "pod", "root-dir"):
        if name in parsed.given and not (flags.from_pvc or flags.from_pv):
            raise ConfigError(f"{name}: only with --from-pvc or --from-pv", exit_code=2)
    if not flags.root_dir.startswith("/"):
        raise ConfigError(f"root-dir: {flags.root_dir!r} is no absolute path, as in {ROOT}", exit_code=2)
    if flags.f == flags.secrets_file == "-":
        raise ConfigError("secrets-file: stdin is one file: give the request or the secrets by name")


COMMAND: Final[Command[CallFlags]] = Command(
    CallFlags,
    check=_check,
    about="Makes one CSI call: mooring call RPC FIELD=VALUE ... Fields by their paths, sizes as quantities, enums by name. Prints the "
    "answer without secrets, and each rule of CSI that it breaks.",
    example="mooring call GetPluginInfo --csi-address unix:///csi/csi.sock\n"
    "mooring call CreateVolume name=data capacity_range.required_bytes=1Gi \\\n"
    "  volume_capabilities.mount.fs_type=ext4 \\\n  volume_capabilities.access_mode.mode=SINGLE_NODE_WRITER\n"
    "mooring call CreateVolume --from-pvc shop/data --dry-run\n"
    "mooring call CreateSnapshot --from-snapshot shop/monday --dry-run",
    epilog="\nExit codes: 0 the driver answered OK; 1 it answered with an error, or nobody\nanswered; 2 the command line or the request is "
    "wrong.\n",
)


def run(argv: Sequence[str], prog: str, machine: Machine | None = None) -> int:
    """argv: the words after `mooring call`: the call, its fields, and flags, in any order. Gives the exit code."""
    words, flags = words_among_flags(CallFlags, argv)
    return run_for_people(COMMAND, flags, prog, lambda given: _call(words, given, prog, machine or Machine()))


def words_among_flags(table: type[ProcessFlags], argv: Sequence[str]) -> tuple[list[str], list[str]]:
    """Words and flags, in whatever order they come; behind -- all are words."""
    words: list[str] = []
    flags: list[str] = []
    left = list(argv)
    while left:
        count = next((number for number, word in enumerate(left) if word.startswith("-")), len(left))
        words += left[:count]
        left = left[count:]
        try:
            rest = list(parse(table, left).rest)
        except UsageError:
            return words, [*flags, *left]  # whoever reads the flags says so
        taken = left[: len(left) - len(rest)]
        if taken[-1:] == ["--"]:
            return [*words, *rest], [*flags, *taken[:-1]]
        flags += taken
        left = rest
    return words, flags


def _call(words: Sequence[str], flags: CallFlags, prog: str, machine: Machine) -> int:
    if not words:
        raise UsageError("name the call: mooring call RPC FIELD=VALUE ..., as in mooring call GetPluginInfo")
    from mooring.conform.call.names import rpc_named

    rpc = rpc_named(words[0])
    if any(_sources(flags)):
        return answer_of(_from_object(rpc, words[1:], flags, machine), prog, FAILED)
    request = rpc.request_type()
    _fill(request, words[1:], flags)
    if flags.dry_run:
        sys.stdout.write(_as_text(request, flags))
        return 0
    return answer_of(_ask(rpc, request, flags), prog, FAILED)


async def _from_object(rpc: Rpc[Any, Any], words: Sequence[str], flags: CallFlags, machine: Machine) -> int:
    built = await _built(rpc.name, flags, machine)
    _fill(built.request, words, flags)
    for note in built.notes:
        _say(note)
    if flags.dry_run:
        sys.stdout.write(_as_text(built.request, flags))
        return 0
    return await _ask(rpc, built.request, flags)


async def _built(rpc: str, flags: CallFlags, machine: Machine) -> Built:
    """Raises MooringError."""
    from mooring.api.meta import Key
    from mooring.base.clock import LoopClock
    from mooring.cli.clusters import client_for_people, load_config_as_kubectl
    from mooring.inspect.built import Objects
    from mooring.inspect.node_requests import Where
    from mooring.inspect.requests import Requests
    from mooring.inspect.snapshot_requests import SnapshotRequests

    clock = LoopClock()
    driver, able = await _introduced(rpc, flags, clock)
    home = flags.namespace or flags.n or load_config_as_kubectl(flags.kubeconfig, machine).namespace
    secrets: Mapping[str, str] | None = {} if flags.secrets_file else None  # those of the file come on top
    async with client_for_people("mooring-call", flags.kubeconfig, machine, clock=clock) as cluster:
        objects, where = Objects(cluster, clock, secrets), Where(flags.node, flags.pod, Path(flags.root_dir))
        requests, of_snapshots = Requests(objects, driver, able), SnapshotRequests(objects, driver)
        if flags.from_content:
            return await of_snapshots.from_content(rpc, flags.from_content)
        if flags.from_pv:
            return await requests.from_volume(rpc, flags.from_pv, where)
        namespace, _, name = (flags.from_pvc or flags.from_snapshot).rpartition("/")
        key = Key(namespace or home, name)
        return await (
            of_snapshots.from_snapshot(rpc, key) if flags.from_snapshot else requests.from_claim(rpc, key, where)
        )


async def _introduced(rpc: str, flags: CallFlags, clock: Clock) -> tuple[DriverCapabilities, frozenset[int]]:
    """The driver's capabilities, and those of its node service for a call to that. Raises DriverError, ConfigError."""
    from mooring.csi.capabilities import rpcs
    from mooring.csi.driver import Call
    from mooring.csi.driver_capabilities import capabilities_of
    from mooring.csi.probe_and_identify import probe_and_identify
    from mooring.csi.proto import csi_pb2 as csi
    from mooring.csi.wire_driver import WireDriver

    driver = WireDriver(address_of(flags.csi_address), clock=clock)
    await driver.connect(CONNECT_S_MAX)
    try:
        info, able = await probe_and_identify(driver, clock=clock), frozenset[int]()
        if rpc.startswith("Node"):
            able = rpcs(await driver.node_get_capabilities(csi.NodeGetCapabilitiesRequest(), Call(flags.timeout_s)))
        return capabilities_of(info), able
    finally:
        await driver.close()


def _fill(request: Message, words: Sequence[str], flags: CallFlags) -> None:
    from mooring.conform.call.fields import document_in, fill, fill_from_words, fill_secrets, secrets_in

    if flags.f:
        fill(request, document_in(text_of(flags.f), flags.f))
    fill_from_words(request, words)
    if flags.secrets_file:
        fill_secrets(request, secrets_in(text_of(flags.secrets_file), flags.secrets_file))


def text_of(name: str) -> str:
    """Raises ConfigError."""
    try:
        return sys.stdin.read() if name == "-" else Path(name).read_text()
    except OSError as error:
        raise ConfigError(f"can't read {name}: {error.strerror}", exit_code=2) from None
    except UnicodeDecodeError:
        raise ConfigError(f"{name}: is no UTF-8", exit_code=2) from None


async def _ask(rpc: Rpc[Any, Any], request: Message, flags: CallFlags) -> int:
    from mooring.base.clock import LoopClock
    from mooring.conform.call.asking import ask

    clock = LoopClock()
    outcome = await ask(
        address_of(flags.csi_address), rpc, request, timeout_s=flags.timeout_s, connect_s=CONNECT_S_MAX, clock=clock
    )
    return _told(outcome, request, flags)


def address_of(flag: str) -> str:
    """The driver's socket. Raises ConfigError."""
    address = flag or os.environ.get("CSI_ENDPOINT", "")
    if not address:
        raise UsageError(
            "csi-address: required, as in --csi-address=unix:///csi/csi.sock or CSI_ENDPOINT=unix:///csi/csi.sock"
        )
    return (
        address.replace("unix:/", "unix:///", 1)
        if address.startswith("unix:/") and not address.startswith("unix://")
        else address
    )


def _as_text(message: Message, flags: CallFlags) -> str:
    from mooring.csi.redact import shown
    from mooring.inspect.printing import as_json, as_yaml

    return (as_json if (flags.o or flags.output) == "json" else as_yaml)(shown(message))


def _told(outcome: Outcome, request: Message, flags: CallFlags) -> int:
    from mooring.conform.call.codes import meaning
    from mooring.csi.redact import scrubbed

    if outcome.answer is not None:
        sys.stdout.write(scrubbed(_as_text(outcome.answer, flags), request))
    if outcome.error is not None:
        _say(f"{outcome.error}\n{meaning(outcome.error)}")
    for breach in outcome.breaches:
        _say("\n  ".join((breach.line, *breach.advice, breach.rule.source)))
    return 0 if outcome.error is None else FAILED


def _say(text: str) -> None:
    sys.stderr.write(f"{visible_lines(text)}\n")
