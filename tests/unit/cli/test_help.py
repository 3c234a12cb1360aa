"""What newcomers meet first: --help, --version, and the answer to a wrong word."""

from __future__ import annotations

import re
import shlex
import sys
from typing import Any, Final

import pytest

import mooring
from mooring.base.flags import Section, flags_of, parse
from mooring.cli import (
    apiserver,
    attachdetach,
    binder,
    call,
    cluster_registrar,
    completion,
    conform,
    controller,
    csi_attacher,
    csi_provisioner,
    csi_resizer,
    csi_snapshotter,
    demo,
    dev,
    dev_power,
    doctor,
    fence,
    hostpath,
    node_agent,
    orphans,
    proxy,
    snapshot_controller,
    timeline,
    unfence,
    unstick,
    why,
)
from mooring.cli import mooring as command
from mooring.cli.process import WIDTH, Command
from mooring.cli.tables import DropInFlags
from tests.support.rows import each_row

OURS: Final[dict[str, Command[Any]]] = {
    "apiserver": apiserver.COMMAND,
    "apiserver backup": apiserver._BACKUP,
    "apiserver restore": apiserver._RESTORE,
    "attachdetach": attachdetach.COMMAND,
    "binder": binder.COMMAND,
    "call": call.COMMAND,
    "completion": completion.COMMAND,
    "conform": conform.COMMAND,
    "controller": controller.COMMAND,
    "demo": demo.COMMAND,
    "dev": dev.COMMAND,
    **{f"dev {word}": one for word, one in dev_power.COMMANDS.items()},
    "doctor": doctor.COMMAND,
    "driver hostpath": hostpath.COMMAND,
    "fence": fence.COMMAND,
    "node-agent": node_agent.COMMAND,
    "orphans": orphans.COMMAND,
    "proxy": proxy.COMMAND,
    "timeline": timeline.COMMAND,
    "unfence": unfence.COMMAND,
    "unstick": unstick.COMMAND,
    "why": why.COMMAND,
}
DROP_INS: Final[dict[str, Command[Any]]] = {
    "attacher": csi_attacher.COMMAND,
    "cluster-registrar": cluster_registrar.COMMAND,
    "provisioner": csi_provisioner.COMMAND,
    "resizer": csi_resizer.COMMAND,
    "snapshot-controller": snapshot_controller.COMMAND,
    "snapshotter": csi_snapshotter.COMMAND,
}
WITH_A_WORD: Final = {
    "conform",
    *("apiserver backup", "apiserver restore", "completion", "dev kill-node", "dev revive-node"),
    *("call", "fence", "timeline", "unfence", "unstick", "why"),
}
PROGRAMS: Final = {"cluster-registrar": "cluster-driver-registrar", "snapshot-controller": "snapshot-controller"}
SMALL: Final = {"livenessprobe", "registrar"}
"""These read their flags without `Command`, to stay small; their own tests look at their help."""
TAKEN_OVER: Final = {
    "attachdetach": {"attach-detach-reconcile-sync-period", "disable-attach-detach-reconcile-sync"},
    "controller": {row.name for row in flags_of(DropInFlags).values()},
}
"""Without effect: of kube-controller-manager's and the sidecars', for controllers that move over with their flags."""
IDLE: Final = (Section.COMPATIBLE, Section.UNAVAILABLE)


def answer(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str, str]:
    code = command.run(argv)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_every_command_is_here() -> None:
    assert set(command.COMMANDS) == SMALL | {name.split()[0] for name in OURS | DROP_INS}


@each_row("name", [*OURS, *DROP_INS])
def test_help_says_what_the_command_does_then_shows_an_example_then_the_flags(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = answer(capsys, *name.split(), "--help")
    assert (0, "") == (code, err)
    about, example, own = out.split("\n\n")[:3]
    assert about.endswith(".")
    assert example.startswith("For example:\n  ")
    assert own.startswith("Log and version:\n" if name == "completion" else f"Usage of mooring {name}:\n")
    assert [] == [line for line in out.splitlines() if len(line) >= WIDTH]


@each_row("name", [*OURS, *DROP_INS])
def test_the_example_can_be_typed(name: str) -> None:
    one = {**OURS, **DROP_INS}[name]
    prog = f"mooring {name}" if name in OURS else PROGRAMS.get(name, f"csi-{name}")
    for line in one.example.replace("\\\n", "").splitlines():
        words = shlex.split(line)
        assert prog.split() == words[: len(prog.split())]
        words = words[len(prog.split()) :]
        if name == "call":  # its words stand among its flags
            (first, *_), words = call.words_among_flags(one.table, words)
            words = [*words, first]
        parsed = parse(one.table, words)
        one.check(parsed)
        assert len(parsed.rest) == (1 if name in WITH_A_WORD else 0)


@each_row("name", OURS)
def test_a_command_of_our_own_knows_no_flag_that_does_nothing(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert TAKEN_OVER.get(name, set()) == {
        row.name for row in flags_of(OURS[name].table).values() if row.section in IDLE
    }
    for flag in ("--automaxprocs", "--log-flush-frequency=5s", "--logtostderr", "--metrics-address=:1"):
        assert 2 == answer(capsys, *name.split(), flag)[0]


@each_row("name", DROP_INS)
def test_in_the_place_of_a_go_program_they_are_taken_and_stand_last(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    idle = [row.name for row in flags_of(DROP_INS[name].table).values() if row.section in IDLE]
    assert {"automaxprocs", "log-flush-frequency"} <= set(idle)
    out = answer(capsys, name, "--help")[1]
    effective, _, rest = out.partition("\nAccepted for compatibility, without effect:\n")
    assert all(f"--{flag}" in rest and f"--{flag}" not in effective for flag in idle)


@each_row("name", [*OURS, *DROP_INS])
def test_a_wrong_flag_is_answered_in_a_line(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    asked = f"mooring {name}: flag provided but not defined: -zzz; mooring {name} --help lists the flags\n"
    assert (2, "", asked) == answer(capsys, *name.split(), "--zzz")


@each_row(
    ("line", "problem"),
    [
        ("dev --port=70000", "port: must be between 0 and 65535"),
        ("dev --v=x", 'invalid value "x" for flag -v'),
        ("dev --logging-format=xml", 'unsupported log format "xml"'),
        ("demo word", "'word' is no flag"),
        ("apiserver", "state: give a folder"),
        ("apiserver backup --state=x", "give one FILE, after the flags"),
        ("binder --workers=0", "workers: must be between 1 and 1000, got 0"),
        ("binder word", "'word' is no flag"),
        ("orphans --yes", "--yes, --volume and --secret go with --delete"),
        ("driver hostpath --state=x", "node-id: required"),
    ],
)
def test_so_is_a_flag_that_can_not_be_used(line: str, problem: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = answer(capsys, *line.split())
    *before, said = err.splitlines()
    assert (2, "") == (code, out)
    assert problem in said
    assert len(before) <= 1, "a line of the log, at the most"


@each_row("name", [*OURS, *DROP_INS])
def test_every_command_has_a_version(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """mooring dev --version began a server."""
    assert (0, f"mooring {name} v{mooring.__version__}\n", "") == answer(capsys, *name.split(), "--version")


@each_row("word", ["atacher", "-v=4", "nonsense"])
def test_a_word_that_is_no_command(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    near = " (did you mean attacher?)" if word == "atacher" else ""
    assert (2, "", f"mooring: there is no command {word!r}{near}; mooring --help lists them\n") == answer(capsys, word)


@each_row("word", ["kil-node", "nonsense"])
def test_a_word_that_is_no_command_of_dev(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    near = " (did you mean kill-node?)" if word == "kil-node" else ""
    told = f"mooring dev: there is no command {word!r}{near}; mooring dev --help lists them\n"
    assert (2, "", told) == answer(capsys, "dev", word)


@each_row(
    ("word", "near"),
    [
        ("dve", "dev"),
        ("de", "dev"),
        ("demp", "demo"),
        ("dem", "demo or dev"),
        ("drvier", "driver"),
        ("bindre", "binder"),
        ("apiservr", "apiserver"),
    ],
)
def test_27b6_a_slip_of_the_finger_means_the_command_that_is_nearest(
    word: str, near: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert f" (did you mean {near}?);" in answer(capsys, word)[2]


@each_row("name", ["", "driver", "registrar", "livenessprobe", "driver run", "driver new"])
def test_27b6_nothing_is_wider_than_a_terminal(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = answer(capsys, *name.split(), "--help")
    assert (0, []) == (code, [one for one in out.splitlines() if len(one) >= WIDTH])


def test_without_a_word_the_commands_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    listed = answer(capsys, "--help")[1]
    assert (2, "", listed) == answer(capsys)
    assert [] == [name for name in command.COMMANDS if f"\n  {name} " not in listed]
    assert all(len(line) < WIDTH for line in listed.splitlines())


def test_as_the_go_program_a_wrong_flag_comes_with_the_usage(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["csi-attacher", "--nonsense"])
    assert 2 == csi_attacher.main()
    assert "\nUsage of csi-attacher:\n" in capsys.readouterr().err


@each_row("name", [*OURS, *DROP_INS])
def test_a_flag_of_one_letter_is_written_with_one_dash(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = answer(capsys, *name.split(), "--help")
    assert [] == re.findall(r"^  --\w(?: .*)?$", out, re.MULTILINE)


def test_why_writes_them_so(capsys: pytest.CaptureFixture[str]) -> None:
    out = answer(capsys, "why", "--help")[1]
    assert "\n  -n string" in out
    assert "\n  -o string" in out


def test_a_node_agent_has_no_flags_of_an_election(capsys: pytest.CaptureFixture[str]) -> None:
    assert "leader" not in answer(capsys, "node-agent", "--help")[1].lower()
    code, _, err = answer(capsys, "node-agent", "--leader-election-namespace=default")
    assert 0 != code
    assert "leader-election-namespace: a node has one agent, which needs no election; remove the flag" in err
