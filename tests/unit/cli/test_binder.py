"""`mooring binder` as a command: its flags, and which parts they mean."""

from __future__ import annotations

import subprocess
import sys

import pytest

from mooring.base.errors import ConfigError
from mooring.base.flags import parse
from mooring.cli.binder import COMMAND, BinderFlags, parts_of, run
from mooring.cluster.binder.options import PARTS, SCHEDULER
from tests.support.rows import each_row

ROWS = {
    "*": frozenset(PARTS),
    "-scheduler": frozenset(PARTS) - {SCHEDULER},
    "*,-scheduler": frozenset(PARTS) - {SCHEDULER},
    "scheduler": frozenset({SCHEDULER}),
    "scheduler, ephemeral-volume-controller": frozenset({SCHEDULER, "ephemeral-volume-controller"}),
}


@each_row(("text", "expected"), ROWS.items())
def test_parts(text: str, expected: frozenset[str]) -> None:
    assert expected == parts_of(parse(BinderFlags, [f"--controllers={text}"], {}).flags.controllers)


@each_row(
    ("argv", "problem"),
    [
        (["--controllers=attacher"], "controllers: 'attacher' is not known"),
        (["--controllers=scheduler,-scheduler"], "controllers: nothing is left to run; name a part"),
        (["--controllers="], "controllers: nothing is left to run; name a part"),
        (["--bind-timeout=0s"], "bind-timeout: must be greater than zero"),
        (["--workers=0"], "workers: must be between 1 and 1000, got 0"),
        (["--metrics-path=x"], "metrics-path"),
    ],
)
def test_what_can_not_be_used_is_refused(argv: list[str], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        COMMAND.check(parse(BinderFlags, argv, {}))


def test_defaults() -> None:
    flags = parse(BinderFlags, [], {}).flags
    assert (("*",), 600.0, 16, False) == (flags.controllers, flags.bind_timeout_s, flags.workers, flags.leader_election)


def test_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert 0 == run(["--help"], "mooring binder")
    said = capsys.readouterr().out
    assert all(part in said for part in PARTS)
    assert "(default [*])\n" in said


@pytest.mark.slow
def test_it_carries_no_driver_no_server_and_no_terminal() -> None:
    """Memory at rest is a budget."""
    heavy = (
        "grpc",
        "rich",
        "cryptography",
        "sqlite3",
        "mooring.apiserver",
        "mooring.dev",
        "mooring.driver",
        "mooring.sidecars.attacher",
    )
    code = (
        f"import sys, mooring.cli.manager, mooring.cluster.binder.controller; print([one for one in {heavy!r} if "
        "one in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "[]" == done.stdout.strip()


def test_programs_without_a_driver_need_no_protobuf():
    """Which is 3 MiB. One process asks all rooms, and ends at the first that has it."""
    rooms = "cluster.snapshots", "cluster.attachdetach", "cluster.binder"
    code = f"""
import importlib, sys
import mooring.cli.manager
for room in {rooms}:
    importlib.import_module(f"mooring.{{room}}.controller")
    if found := {{"google.protobuf", "mooring.csi.proto"}} & sys.modules.keys():
        sys.exit(f"{{room}}: {{found}}")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (0, "") == (done.returncode, done.stderr)
