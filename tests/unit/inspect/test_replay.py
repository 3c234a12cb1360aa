"""`mooring replay`: its files, its programs and its words."""

from __future__ import annotations

import gzip
import importlib
import itertools
import json
import types
from pathlib import Path
from typing import Any
from unittest import mock

import msgspec
import pytest

from mooring.base.errors import ConfigError
from mooring.base.flags import parse
from mooring.cli import mooring as command
from mooring.cli import replay
from mooring.cli.controller_flags import setup_of
from mooring.cli.controller_parts import OneWork
from mooring.cli.flight import options_of_record
from mooring.cli.process import Machine, Setup
from mooring.control.flight.entries import FORMAT, OWN, Asked, CachedKind, Header
from mooring.control.runtime import Runtime
from mooring.inspect.replay.course import common_length, replayed
from mooring.inspect.replay.director import Decided
from mooring.inspect.replay.free import OwnObjects
from mooring.inspect.replay.record import Record, parsed
from mooring.inspect.replay.render import values
from mooring.sidecars.resizer.options import ResizerOptions

TABLES = {
    "csi-attacher": ("csi_attacher", "AttacherFlags"),
    "csi-provisioner": ("csi_provisioner", "ProvisionerFlags"),
    "csi-resizer": ("csi_resizer", "ResizerFlags"),
    "csi-snapshotter": ("csi_snapshotter", "SnapshotterFlags"),
    "snapshot-controller": ("snapshot_controller", "SnapshotControllerFlags"),
    "mooring-attachdetach": ("attachdetach", "AttachDetachFlags"),
    "mooring-binder": ("binder", "BinderFlags"),
    "mooring-controller": ("controller", "ControllerFlags"),
}
SIDECARS = "attacher,provisioner,resizer,snapshotter"
NEEDED = {"mooring-controller": (f"--enable={SIDECARS},attachdetach,binder,nodehealth,workloads",)}
DRIVER = {"name": "a.csi.test", "vendor_version": "1", "plugin": [1], "volume_expansion": [], "controller": [2, 5]}


def a_header(program: str, *words: str, **more: Any) -> Header:
    """As a program of these flags writes it, and as it is read."""
    module, table = (
        getattr(importlib.import_module(f"mooring.cli.{TABLES[program][0]}"), name)
        for name in ("COMMAND", TABLES[program][1])
    )
    given = parse(table, words or NEEDED.get(program, ()))
    gates = {name: gate.default for name, gate in module.gates.items()} | getattr(given.flags, "feature_gates", {})
    options = options_of_record(
        Setup(program, given.flags, given.given, gates), Machine(environ={"NODE_NAME": "n1", "HOME": "/nowhere"})
    )
    header = Header(
        FORMAT, program, "0.1.0", "a test", True, 1_780_000_000.0, options=options, **{"driver": DRIVER, **more}
    )
    return msgspec.json.decode(msgspec.json.encode(header), type=Header)


def a_file(folder: Path, header: Header, *lines: dict[str, Any]) -> Path:
    path = folder / "record.gz"
    path.write_bytes(
        gzip.compress(b"\n".join([msgspec.json.encode(header), *(json.dumps(line).encode() for line in lines), b""]))
    )
    return path


def test_every_program_that_can_be_replayed_is_tested() -> None:
    assert set(TABLES) == set(replay.PROGRAMS)


@pytest.mark.parametrize("program", TABLES)
def test_a_program_is_made_again_from_its_record(program: str) -> None:
    found = replayed(Record(a_header(program), ()), replay.make_of(a_header(program)))
    assert ((), "") == (found.decisions, found.departure)


def test_several_controllers_without_a_driver_are_made_again() -> None:
    header = a_header("mooring-controller", "--enable=attachdetach,binder", driver={})
    made: list[OneWork] = []

    def make(runtime: Runtime, driver: Any) -> OneWork:
        work = replay.make_of(header)(runtime, driver)
        assert isinstance(work, OneWork)
        made.append(work)
        return work

    assert "" == replayed(Record(header, ()), make).departure
    assert [{"attachdetach", "binder"}] == [set(one.members) for one in made]


def test_several_controllers_with_a_lease_each_can_not_be_replayed() -> None:
    header = a_header("mooring-controller", "--enable=attachdetach,binder", "--leader-election-lease-each")
    with pytest.raises(ConfigError, match="--leader-election-lease-each can't be replayed"):
        replay.make_of(header)


def test_each_flag_of_several_controllers_comes_back() -> None:
    words = (
        "--attacher-timeout=3s",
        "--resizer-workers=7",
        "--binder-controllers=scheduler",
        "--feature-gates=Topology=false",
    )
    header = a_header("mooring-controller", f"--enable={SIDECARS},binder", *words)
    with mock.patch("mooring.cli.controller_parts.setup_of", wraps=setup_of) as asked:
        replayed(Record(header, ()), replay.make_of(header))
    setups = {call.args[0].name: setup_of(*call.args) for call in asked.call_args_list}
    assert 3.0 == setups["attacher"].flags.timeout_s
    assert 7 == setups["resizer"].flags.workers
    assert ("scheduler",) == setups["binder"].flags.controllers
    assert setups["provisioner"].gates["Topology"] is False


def test_the_flags_come_back_and_those_of_the_surroundings_do_not() -> None:
    header = a_header("csi-attacher", "--timeout=3s", "--kubeconfig=/nowhere/config", "--csi-address=/nowhere/csi.sock")
    assert 3.0 == header.options["flags"]["timeout_s"]
    assert "/nowhere" not in msgspec.json.encode(header).decode()
    assert {"NODE_NAME": "n1"} == header.options["environ"]


def test_a_file_of_somebody_else_commands_no_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = a_file(tmp_path, a_header("csi-attacher", in_flight=("\x1b[2J",)))
    assert 0 == command.run(["replay", str(path)])
    assert "\x1b" not in capsys.readouterr().out


def test_what_the_record_has_and_the_replay_does_not_come_to_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = {
        "verb": "get",
        "resource": "leases.coordination.k8s.io",
        "name": "nobody",
        "namespace": "default",
        "selection": ["*", "", ""],
    }
    answer = {"kind": "answer", "t": 1.5, "who": "somebody", "asked": asked, "answer": {}}
    decided = {
        "kind": "decided",
        "t": 2.0,
        "who": "somebody",
        "what": "csi-attacher-va",
        "key": "'va'",
        "shown": "Decision()",
    }
    assert replay.DEPARTED == command.run(["replay", str(a_file(tmp_path, a_header("csi-attacher"), answer, decided))])
    out = capsys.readouterr().out
    assert "The replay departs from the record after 0 decisions" in out
    assert "the record has: somebody: answer get leases.coordination.k8s.io/default/nobody" in out


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"no gzip", "no record of mooring's flight recorder"),
        (
            b'{"what": "calls of a CSI driver", "format": 1}\n',
            "give the driver to ask, as in --driver=unix:///csi/csi.sock",
        ),
        (gzip.compress(b"no json\n"), "no record of mooring's flight recorder"),
        (gzip.compress(b""), "no record of mooring's flight recorder"),
        (
            gzip.compress(b'{"format":99,"program":"x","version":"1","why":"","whole":true,"began_s":0}\n'),
            "the record has format 99; this version of mooring reads format 1",
        ),
    ],
    ids=["no-gzip", "calls", "no-json", "empty", "newer"],
)
def test_a_file_that_is_no_record_is_refused(data: bytes, text: str) -> None:
    with pytest.raises(ConfigError, match=text) as refused:
        parsed(data)
    assert 2 == refused.value.exit_code


@pytest.mark.parametrize("words", [[], ["a", "b"], ["/nowhere/record.gz"]])
def test_a_wrong_command_line_is_refused(words: list[str]) -> None:
    assert 2 == command.run(["replay", *words])


def test_a_decision_that_the_record_has_not_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = a_file(tmp_path, a_header("csi-attacher"))
    assert 2 == command.run(["replay", str(path), "--at=7"])
    assert "--at=7: the record ends after 0 decisions" in capsys.readouterr().err


def test_json_tells_the_seconds_since_the_record_s_beginning_and_the_bare_name() -> None:
    told = values(Decided(1, 30250.25, "csi-attacher-va", "'va-1'", "attached", "Decision()"), 30250.0)
    assert (0.25, "va-1") == (told["t"], told["key"])


def test_objects_that_are_the_programs_own_answer_as_an_api_server_does() -> None:
    lease = {
        "metadata": {"name": "page-0", "namespace": "default", "resourceVersion": "71"},
        "spec": {"holderIdentity": "who died"},
    }
    own = OwnObjects(CachedKind("leases", ("default", "", ""), OWN, msgspec.Raw(msgspec.json.encode([lease]))))

    def answered(verb: str, name: str, body: str = "") -> Any:
        entry = own.answer(Asked(verb, "leases", name, "default", body=body))
        assert entry is not None
        return entry.fault.kind if entry.fault else msgspec.json.decode(entry.answer)

    assert lease == answered("get", "page-0")
    assert "NotFound" == answered("get", "page-1")
    mine = {"metadata": {"name": "page-0", "resourceVersion": "71"}, "spec": {"holderIdentity": "me"}}
    written = answered("replace", "page-0", msgspec.json.encode(mine).decode())
    assert ("me", True) == (written["spec"]["holderIdentity"], written["metadata"]["resourceVersion"] != "71")
    assert written == answered("get", "page-0")
    assert None is own.answer(Asked("list", "leases"))


def test_a_replay_knows_what_the_program_had_asked_before_its_work_began() -> None:
    seen: dict[str, Any] = {}

    def resizer(
        runtime: Runtime, driver: Any, info: Any, options: ResizerOptions, *_: Any, on_node: bool, **more: Any
    ) -> None:
        seen.update(modify=options.modify, on_node=on_node)

    founds = {"classes": False, "on_node": True}, {"classes": True, "on_node": False}
    for found, program in itertools.product(founds, ("csi-resizer", "mooring-controller")):
        header = a_header(program, *(() if program == "csi-resizer" else ("--enable=resizer",)))
        header.options["found"] = found if program == "csi-resizer" else {"resizer": found}
        runtime: Any = types.SimpleNamespace(cluster=None, clock=None, randomness=None)
        with mock.patch("mooring.sidecars.resizer.controller.Resizer", resizer):
            replay.make_of(header)(runtime, None)  # type: ignore[arg-type]
        assert {"modify": found["classes"], "on_node": found["on_node"]} == seen


@pytest.mark.parametrize(
    ("recorded", "made", "count"),
    [
        ("wxyz", "wxyz", 4),
        ("wxyzn", "nwxyz", 4),  # one that comes last in the record, and first here
        ("wxyz", "waxbycz", 4),
        ("wxyz", "zyxw", 1),
        ("nn", "n", 1),
        ("", "w", 0),
        ("w", "", 0),
    ],
)
def test_decisions_are_the_same_where_both_have_them_in_one_order(recorded: str, made: str, count: int) -> None:
    assert count == common_length(recorded, made)
