"""From a command line to a process: exit codes, logging, version, in process."""

import dataclasses
import json
import re
import signal
import subprocess
import sys
import threading

import pytest

import mooring
from mooring.base import log
from mooring.base.errors import ConfigError
from mooring.cli import csi_attacher
from mooring.cli.process import Command, run_command
from mooring.cli.tables import SidecarFlags
from tests.support.rows import each_row


@pytest.fixture(autouse=True)
def _logging_as_before():
    yield
    log.configure()


@pytest.fixture
def attempt(capsys):
    """attempt(*flags): (exit code, stdout, stderr, set-up or None) of a command that serves nothing."""

    def run(*flags, fail=None):
        served = []

        def serve(setup):
            served.append(setup)
            if fail is not None:
                raise fail
            return 0

        code = run_command(csi_attacher.COMMAND, flags, "/bin/csi-attacher", serve)
        captured = capsys.readouterr()
        return code, captured.out, captured.err, served[0] if served else None

    return run


@each_row("flag", ["--version", "-version", "--version=true"], fresh=[_logging_as_before, attempt])
def test_FL01_version_is_the_name_as_typed_and_the_version(attempt, flag):
    assert (0, f"/bin/csi-attacher v{mooring.__version__}\n", "", None) == attempt(flag)


def test_FL01_a_bad_gate_wins_over_the_version(attempt):
    code, out, err, _ = attempt("--version", "--feature-gates=NoSuchGate=true")
    assert (1, "") == (code, out)
    assert "NoSuchGate" in err


def test_FL01_a_bad_format_wins_over_the_version(attempt):
    assert 1 == attempt("--version", "--logging-format=xml")[0]


@each_row(
    "flag",
    ["--no-such", "--time=5s", "--timeout=5", "--worker-threads=-1", "--kube-api-qps=x", "--leader-election=maybe"],
    fresh=[_logging_as_before, attempt],
)
def test_FL03_what_cannot_be_read_is_said_with_the_usage(attempt, flag):
    code, out, err, _ = attempt(flag)
    assert (2, "") == (code, out)
    assert err.splitlines()[0].startswith(("flag provided but not defined", "invalid value"))
    assert "Usage of /bin/csi-attacher:" in err
    assert f"/bin/csi-attacher: {err.splitlines()[0]}" == err.splitlines()[-1], (
        "the usage has scrolled the first line away"
    )


@each_row("flag", ["-h", "--help"], fresh=[_logging_as_before, attempt])
def test_FL03_help_is_no_error(attempt, flag):
    code, out, err, _ = attempt(flag)
    assert (0, "") == (code, err)
    for name in (
        "csi-address",
        "worker-threads",
        "leader-election-lease-duration",
        "reconcile-sync",
        "max-entries",
        "feature-gates",
    ):
        assert f"--{name}" in out


@each_row(
    ("flags", "reason"),
    [
        (["--kube-api-burst=0"], "burst is required to be greater than 0"),
        (["--kube-api-qps=5", "--kube-api-burst=-1"], "burst is required to be greater than 0"),
        (["--kube-api-qps=nan"], "kube-api-qps: nan is no rate"),
        (["--kube-api-qps=inf"], "kube-api-qps: inf is no rate"),
    ],
    fresh=[_logging_as_before, attempt],
)
def test_FL04_a_rate_without_a_burst_is_refused(attempt, flags, reason):
    code, _, err, _ = attempt(*flags)
    assert 1 == code
    assert reason in err


@each_row(
    ("flag", "code", "on"),
    [("--automaxprocs", 0, True), ("--automaxprocs=false", 0, False), ("--automaxprocs=error", 2, None)],
    fresh=[_logging_as_before, attempt],
)
def test_FL05_automaxprocs(attempt, flag, code, on):
    ended, _, _, setup = attempt(flag)
    assert (code, on) == (ended, setup and setup.flags.automaxprocs)


@each_row(
    "flag",
    ["--leader-election-type=leases", "--leader-election-identity=me", "--dummy", "--logtostderr=true"],
    fresh=[_logging_as_before, attempt],
)
def test_FL_removed_flags_are_taken_with_a_warning(attempt, flag):
    code, _, err, setup = attempt(flag)
    assert 0 == code
    assert setup is not None
    assert re.search(r"^W.*Flag is deprecated and has no effect", err, re.MULTILINE)
    assert flag.lstrip("-").partition("=")[0] in err


def test_words_after_the_flags_are_told(attempt):
    _, _, err, setup = attempt("--leader-election", "true", "--timeout=3s")
    assert 15.0 == setup.flags.timeout_s
    assert 'words="true --timeout=3s"' in err


@each_row(
    ("flags", "code", "told"),
    [
        pytest.param(
            ["--http-endpoint=:8080", "--metrics-address=:8081"],
            1,
            "only one of `--metrics-address` and `--http-endpoint` can be set",
            id="HT01-two-addresses",
        ),
        pytest.param(
            ["--logging-format=xml"], 1, 'unsupported log format \\"xml\\"; use text or json', id="LG05-log-format"
        ),
        pytest.param(["--vmodule=queue"], 2, "pattern=N", id="LG-vmodule"),
        pytest.param(
            ["--worker-threads=0"], 1, "Option -worker-threads must be greater than zero", id="ST01-no-workers"
        ),
        pytest.param(["--leader-election-labels=a"], 2, "leader-election-labels", id="LE06-no-pair"),
        pytest.param(["--leader-election-labels=a:b:c"], 2, "leader-election-labels", id="LE06-three"),
        pytest.param(["--leader-election-labels=a:b,c"], 2, "leader-election-labels", id="LE06-pair-and-none"),
    ],
    fresh=[_logging_as_before, attempt],
)
def test_a_flag_is_refused(attempt, flags, code, told):
    ended, _, err, _ = attempt(*flags)
    assert code == ended
    assert told in err


@each_row(
    "flag",
    [
        "--log-text-split-stream=true",
        "--log-json-info-buffer-size=1Mi",
        "--log-json-split-stream",
        "--log-text-info-buffer-size",
        "--vmodule=a=1",
    ],
    fresh=[_logging_as_before, attempt],
)
def test_LG_alpha_options_and_vmodule_with_json_are_refused(attempt, flag):
    code, _, err, _ = attempt("--logging-format=json", *([flag, "1"] if flag.endswith("size") else [flag]))
    assert 1 == code
    assert flag.lstrip("-").partition("=")[0] in err


@each_row(
    "flag",
    [
        "--log-text-split-stream=false",
        "--log-json-split-stream=f",
        "--log-text-info-buffer-size=0",
        "--log-json-info-buffer-size=0Ki",
        "--log-json-info-buffer-size=-0.0e3",
    ],
    fresh=[_logging_as_before, attempt],
)
def test_27c7_alpha_options_that_say_what_holds_anyway_are_taken(attempt, flag):
    """As the Go programs do, in manifests that write out every default."""
    assert 0 == attempt(flag)[0]


@each_row("size", ["", "x", ".", "Ki", "1", "0x"], fresh=[_logging_as_before, attempt])
def test_27c7_alpha_options_that_say_something_else_are_not(attempt, size):
    assert 1 == attempt(f"--log-json-info-buffer-size={size}")[0]


def test_LG04_the_first_line_is_the_version_in_the_chosen_form(attempt):
    _, out, err, _ = attempt("--logging-format=json")
    record = json.loads(err.splitlines()[0])
    assert ("Version", 0, f"v{mooring.__version__}", "") == (record["msg"], record["v"], record["version"], out)
    _, _, err, _ = attempt()
    assert f'] "Version" version="v{mooring.__version__}"' in err.splitlines()[0]


@each_row(
    ("flags", "names"),
    [
        (["--leader-election-renew-deadline=15s"], "the lease duration must be greater than the renew deadline"),
        (["--leader-election-retry-period=9s"], "the renew deadline must be greater than 1.2 times the retry period"),
        (["--leader-election-lease-duration=0s"], "must be greater than zero"),
        (["--leader-election-retry-period=-1s"], "must be greater than zero"),
    ],
    fresh=[_logging_as_before, attempt],
)
def test_LE04_impossible_durations_are_refused(attempt, flags, names):
    code, _, err, _ = attempt("--leader-election", *flags)
    assert 2 == code
    assert names in err
    assert flags[0].lstrip("-") in err


def test_LE04_durations_do_not_matter_without_an_election(attempt):
    assert 0 == attempt("--leader-election-renew-deadline=15s")[0]


@each_row(
    ("gates", "code"),
    [
        ("NoSuchGate=true", 1),
        ("CSIMigration=true", 1),  # the attacher has none: the cluster decides (issue 27, A12)
        ("MutableCSINodeAllocatableCount", 2),
        ("MutableCSINodeAllocatableCount=maybe", 2),
    ],
    fresh=[_logging_as_before, attempt],
)
def test_ST04_bad_gates(attempt, gates, code):
    ended, _, err, _ = attempt(f"--feature-gates={gates}")
    assert code == ended
    assert gates.partition("=")[0] in err


def test_ST04_gates_reach_the_set_up(attempt):
    setup = attempt(
        "--feature-gates=AllAlpha=true, AllBeta=true", "--feature-gates=MutableCSINodeAllocatableCount=false,"
    )[3]
    assert {"MutableCSINodeAllocatableCount": False, "ReleaseLeaderElectionOnExit": True} == setup.gates


def test_ST04_what_is_odd_about_gates_is_told(attempt):
    _, _, err, _ = attempt("--feature-gates=MutableCSINodeAllocatableCount=false,WatchList=true")
    assert re.search(r"^W.*GA feature gate MutableCSINodeAllocatableCount=false", err, re.MULTILINE)
    assert re.search(r"^W.*WatchList has no effect", err, re.MULTILINE)


@each_row(
    "flag",
    [
        "--timeout=0s",
        "--retry-interval-start=-1s",
        "--retry-interval-max=0s",
        "--reconcile-sync=0s",
        "--resync=-1s",
        "--max-entries=-1",
        "--max-entries=2147483648",
        "--worker-threads=1000000",
        "--metrics-path=m",
        "--http-endpoint=8080",
        "--csi-address=localhost:1234",
        "--csi-address=",
    ],
    fresh=[_logging_as_before, attempt],
)
def test_values_that_cannot_be_used_are_named(attempt, flag):
    code, _, err, setup = attempt(flag)
    assert (1, None) == (code, setup)
    name, _, value = flag.lstrip("-").partition("=")
    assert name in err
    assert value in err


def test_a_configuration_error_while_serving_keeps_its_exit_code(attempt):
    code, _, err, _ = attempt(fail=ConfigError("no driver there; start it", exit_code=1))
    assert 1 == code
    assert '"Cannot start" err="no driver there; start it"' in err


def test_an_unexpected_error_is_logged_with_its_traceback_and_ends_with_1(attempt):
    code, _, err, _ = attempt(fail=RuntimeError("a bug"))
    assert 1 == code
    (place,) = [number for number, line in enumerate(err.splitlines()) if line.startswith("E")]
    line, *story, last = err.splitlines()[place:]
    assert line.endswith('err="a bug" traceback=<')
    assert any("test_process.py" in one for one in story)
    assert ("\tRuntimeError: a bug", " >") == (story[-1], last)


def test_signal_handlers_are_put_back(attempt):
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    attempt()
    assert before == (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT))


def test_a_command_runs_in_any_thread():
    """Signals belong to the main thread alone."""
    codes = []
    thread = threading.Thread(target=lambda: codes.append(run_command(csi_attacher.COMMAND, [], "x", lambda setup: 5)))
    thread.start()
    thread.join(10)
    assert [5] == codes


@pytest.mark.slow
@each_row("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name, fresh=[_logging_as_before])
def test_SG_a_signal_before_the_loop_runs_ends_with_0(number):
    """As PID 1 of a container a process without a handler would not notice SIGTERM at all."""
    code = (
        "import sys, time; from mooring.cli import csi_attacher; from mooring.cli.process import run_command;"
        "run_command(csi_attacher.COMMAND, [], 'x', lambda setup: print('serving', flush=True) or time.sleep(60) or 1)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert "serving\n" == process.stdout.readline()
            process.send_signal(number)
            assert 0 == process.wait(10)
        finally:
            process.kill()


def test_a_command_needs_no_gates():
    @dataclasses.dataclass(frozen=True, kw_only=True)
    class Plain(SidecarFlags):
        pass

    assert 3 == run_command(Command(Plain), ["-v=0"], "x", lambda setup: 3)


def test_the_entry_point_takes_the_name_as_typed(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["./csi-attacher", "--version"])
    assert 0 == csi_attacher.main()
    assert capsys.readouterr().out == f"./csi-attacher v{mooring.__version__}\n"
