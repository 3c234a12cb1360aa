"""The life of a controller without a driver, with no API server at the other end: nothing is asked before work begins."""

from __future__ import annotations

import pytest

from mooring.base.clock import LoopClock
from mooring.base.flags import parse
from mooring.cli.manager import run_manager
from mooring.cli.process import Machine, Setup
from mooring.cli.tables import ManagerFlags
from mooring.control.order import ORDER
from mooring.inspect.replay.record import read
from tests.unit.cli.sidecar_life import SlowWork

KUBECONFIG = """
clusters: [{name: here, cluster: {server: "http://127.0.0.1:1"}}]
contexts: [{name: here, context: {cluster: here}}]
current-context: here
"""


def served(argv, environ):
    """A manager's life, ended by its work. Gives what that was made from."""
    parsed = parse(ManagerFlags, argv, {})
    made = []

    def make(runtime):
        made.append(runtime)
        return SlowWork(LoopClock(), fail=ZeroDivisionError("the end"))

    with pytest.raises(ZeroDivisionError):
        run_manager("a-manager", Setup("x", parsed.flags, parsed.given, {}), Machine(environ=environ), make)
    return made[0]


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "kubeconfig"
    path.write_text(KUBECONFIG)
    return path


def test_without_verbosity_the_log_tells_that_work_begins(file, capsys):
    served([f"--kubeconfig={file}", f"--flight-recorder-dir={file.parent}"], {})
    assert '"Starting" component="a-manager"\n' in capsys.readouterr().err


def test_the_environments_kubeconfig_counts_after_the_flags(file):
    """Here no upstream program has another habit."""
    off = "--flight-recorder=false"
    assert "http://127.0.0.1:1" == served([off], {"KUBECONFIG": f"{file}:{file}"}).cluster.config.server
    assert (
        "http://127.0.0.1:1"
        == served([off, f"--kubeconfig={file}"], {"KUBECONFIG": "/nonexistent"}).cluster.config.server
    )


# -- the flight recorder


def records_in(folder):
    return [read(path) for path in sorted(folder.glob("mooring-flight-*.gz"))]


def test_a_crash_writes_the_flight_record(file):
    served([f"--kubeconfig={file}", f"--flight-recorder-dir={file.parent}"], {})
    (record,) = records_in(file.parent)
    assert ("a-manager", "the program ended by ZeroDivisionError: the end") == (
        record.header.program,
        record.header.why,
    )
    (path,) = file.parent.glob("mooring-flight-*")
    assert 0o600 == path.stat().st_mode & 0o777


def test_without_a_recorder_a_crash_writes_nothing(file, capsys):
    served([f"--kubeconfig={file}", f"--flight-recorder-dir={file.parent}", "--flight-recorder=false"], {})
    assert [] == records_in(file.parent)
    assert "flight record" not in capsys.readouterr().err


def test_a_record_that_can_not_be_written_is_one_line_of_the_log(file, capsys):
    served([f"--kubeconfig={file}", f"--flight-recorder-dir={file.parent}/nowhere"], {})
    lines = [line for line in capsys.readouterr().err.splitlines() if "flight record" in line]
    assert 1 == len(lines)
    assert "Could not write the flight record" in lines[0]


class TroubledWork(SlowWork):
    """Its recorder notices keys that fail for long, several times."""

    async def run(self):
        order = ORDER.get()
        for _ in range(3):
            order._troubled("keys: bad has failed for 900 s: the array is full")
            await LoopClock().sleep(0.1)
        await super().run()


def test_an_object_that_fails_for_long_writes_one_file_an_hour(file):
    parsed = parse(ManagerFlags, [f"--kubeconfig={file}", f"--flight-recorder-dir={file.parent}"], {})
    setup = Setup("x", parsed.flags, parsed.given, {})
    with pytest.raises(ZeroDivisionError):
        run_manager(
            "a-manager",
            setup,
            Machine(environ={}),
            lambda _: TroubledWork(LoopClock(), fail=ZeroDivisionError("the end")),
        )
    assert ["keys: bad has failed for 900 s: the array is full", "the program ended by ZeroDivisionError: the end"] == [
        record.header.why for record in records_in(file.parent)
    ]
