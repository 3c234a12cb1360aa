"""`mooring call`: any CSI call by hand, its request from words or from a file.

| exit code | when |
|---|---|
| 0 | the driver answered OK |
| 1 | it answered with an error, otherwise than in the record, or not at all |
| 2 | the command line or the request is wrong |
"""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from mooring.base.border import refused_as
from mooring.base.errors import ConfigError
from mooring.base.flagkinds import BOOL, DURATION, FILE, SOCKET, STRING, word_of
from mooring.base.flags import Parsed, UsageError, flag, parse
from mooring.base.text import visible_lines
from mooring.cli.limits import check_positive
from mooring.cli.people import answer_of, check_output, run_for_people
from mooring.cli.process import Command
from mooring.cli.tables import ProcessFlags

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from mooring.conform.call.asking import Outcome
    from mooring.csi.driver import Rpc
    from mooring.dev.by_hand import Places

FAILED: Final = 1
OUTPUTS: Final = ("yaml", "json")
CONNECT_S_MAX: Final = 2.0
REQUIRED: Final = "csi-address: required, as in --csi-address=unix:///csi/csi.sock or CSI_ENDPOINT=unix:///csi/csi.sock"


@dataclasses.dataclass(frozen=True, kw_only=True)
class CallFlags(ProcessFlags):
    csi_address: str = flag(
        "csi-address",
        SOCKET,
        "",
        "The driver's socket, as in unix:///csi/csi.sock. Empty: $CSI_ENDPOINT, else that of a running mooring dev.",
    )
    node: str = flag(
        "node",
        STRING,
        "",
        "The node of a running mooring dev whose driver is called. Empty: the first one, for calls of the node.",
    )
    f: str = flag(
        "f", FILE, "", "A file with the request as YAML or JSON; - is stdin. Words of the command line come on top."
    )
    secrets_file: str = flag(
        "secrets-file",
        FILE,
        "",
        "A file with the call's secrets: a map of names to texts as YAML or JSON, or a Secret; - is stdin.",
    )
    record: str = flag(
        "record",
        FILE,
        "",
        "Ask what a record of mooring proxy asked, call by call, and show where the answers differ.",
    )
    timeout_s: float = flag("timeout", DURATION, 60.0, "How long the driver may take to answer.")
    dry_run: bool = flag("dry-run", BOOL, False, "Print the request, and send nothing.")
    output: str = flag("output", word_of(*OUTPUTS), "yaml", "yaml or json.")
    o: str = flag("o", word_of(*OUTPUTS), "", "The same as --output.")

    @property
    def socket(self) -> str:
        """The driver's, "" where none was given."""
        return self.csi_address or os.environ.get("CSI_ENDPOINT", "")


def _check(parsed: Parsed[CallFlags]) -> None:
    from mooring.csi.address import socket_path

    flags = parsed.flags
    if flags.csi_address:
        socket_path(flags.csi_address)
    check_output(flags.o or flags.output, *OUTPUTS)
    check_positive({"timeout": flags.timeout_s}, "60s")
    if flags.record and (flags.f or flags.dry_run):
        raise ConfigError("record: holds whole requests: give no other one, and no --dry-run", exit_code=2)
    if flags.f == flags.secrets_file == "-":
        raise ConfigError("secrets-file: stdin is one file: give the request or the secrets by name")


COMMAND: Final[Command[CallFlags]] = Command(
    CallFlags,
    check=_check,
    about="Makes one CSI call: mooring call RPC FIELD=VALUE ... Fields by their paths, sizes as quantities, enums by "
    "name. Prints the "
    "answer without secrets, and each rule of CSI that it breaks.",
    example="mooring call GetPluginInfo --csi-address unix:///csi/csi.sock\n"
    "mooring call CreateVolume name=data capacity_range.required_bytes=1Gi \\\n"
    "  volume_capabilities.mount.fs_type=ext4 \\\n  volume_capabilities.access_mode.mode=SINGLE_NODE_WRITER\n"
    "mooring call DeleteVolume volume_id=vol-1 --dry-run",
    epilog="\nExit codes: 0 the driver answered OK; 1 it answered with an error, otherwise\nthan in the record, or not "
    "at all; 2 the command line or the request is wrong.\n",
)


def run(argv: Sequence[str], prog: str) -> int:
    """argv: the words after `mooring call`: the call, its fields, and flags, in any order. Gives the exit code."""
    words, flags = words_among_flags(CallFlags, argv)
    return run_for_people(COMMAND, flags, prog, lambda given: _call(words, given, prog))


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


def _call(words: Sequence[str], flags: CallFlags, prog: str) -> int:
    if flags.record:
        from mooring.cli import record_again

        if words:
            raise UsageError(f"{words[0]!r}: --record has the calls; name none")
        return record_again.ask_again(Path(flags.record), flags, prog)
    if not words:
        raise UsageError("name the call: mooring call RPC FIELD=VALUE ..., as in mooring call GetPluginInfo")
    from mooring.conform.call.names import rpc_named

    rpc = rpc_named(words[0])
    request = rpc.request_type()
    _fill(request, words[1:], flags)
    places = _places(flags)
    address = flags.socket if places is None else _by_places(rpc, request, flags, places)
    if flags.dry_run:
        sys.stdout.write(_as_text(request, flags))
        return 0
    return answer_of(_ask(address, rpc, request, flags), prog, FAILED)


def _places(flags: CallFlags) -> Places | None:
    """The places of the `mooring dev` that is meant; None where a socket was given, or where a dry run finds none.
    Raises ConfigError.
    """
    if not flags.node and flags.socket:
        return None
    from mooring.base.json_text import JsonDecoder
    from mooring.cli.dev_power import folder_of_dev
    from mooring.dev.by_hand import WHERE, Places
    from mooring.dev.power import ask

    try:
        folder = folder_of_dev()
    except ConfigError as error:
        if flags.dry_run and not flags.node:
            return None
        raise UsageError(f"{REQUIRED}: {error}") from None
    return JsonDecoder[Places](Places).decode(ask(folder, WHERE, ""))


def _by_places(rpc: Rpc[Any, Any], request: Message, flags: CallFlags, places: Places) -> str:
    """The socket for the call; the empty paths of its request are filled, and their folders made. Raises
    ConfigError.
    """
    from mooring.dev.by_hand import fill_paths, make_folders

    name = flags.node or next(iter(places.nodes), "")
    if flags.node and name not in places.nodes:
        raise ConfigError(f"node: there is no node {name!r} in that mooring dev, only {', '.join(places.nodes)}")
    place = places.nodes.get(name)
    if place is None or (rpc.service != "Node" and not flags.node):
        _say(f"# the driver of mooring dev: {places.controller}")
        return places.controller
    paths = fill_paths(rpc.name, request, places.driver, place.root)
    if not flags.dry_run:
        make_folders(rpc.name, paths)
    _say("\n".join((f"# {name} of mooring dev: {place.socket}", *(f"# {path}: {at}" for path, at in paths.items()))))
    return place.socket


def _fill(request: Message, words: Sequence[str], flags: CallFlags) -> None:
    from mooring.conform.call.fields import document_in, fill, fill_from_words, fill_secrets, secrets_in

    if flags.f:
        fill(request, document_in(text_of(flags.f), flags.f))
    fill_from_words(request, words)
    if flags.secrets_file:
        fill_secrets(request, secrets_in(text_of(flags.secrets_file), flags.secrets_file))


def text_of(name: str) -> str:
    """Raises ConfigError."""
    with refused_as(f"can't read {name}", exit_code=2):
        return sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8")


async def _ask(address: str, rpc: Rpc[Any, Any], request: Message, flags: CallFlags) -> int:
    from mooring.base.clock import LoopClock
    from mooring.conform.call.asking import ask

    clock = LoopClock()
    outcome = await ask(address, rpc, request, timeout_s=flags.timeout_s, connect_s=CONNECT_S_MAX, clock=clock)
    return _told(outcome, request, flags)


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
        _say(f"{outcome.error}\n{meaning(outcome.error, request.DESCRIPTOR.name.removesuffix('Request'))}")
    for breach in outcome.breaches:
        _say("\n  ".join((breach.line, *breach.advice, breach.rule.source)))
    return 0 if outcome.error is None else FAILED


def _say(text: str) -> None:
    sys.stderr.write(f"{visible_lines(text)}\n")
