"""Go's flag syntax, and feature gates."""

import dataclasses
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.base.errors import ConfigError
from mooring.base.flagkinds import (
    BOOL,
    DURATION,
    FLOAT,
    GATES,
    INT,
    LABELS,
    NO_EFFECT,
    PAIRS,
    STRING,
    UINT,
    Gate,
    GateStage,
    decide_gates,
    gates_help,
)
from mooring.base.flags import Former, UsageError, flag, parse
from tests.support.rows import each_row


@dataclasses.dataclass(frozen=True, kw_only=True)
class Common:
    verbosity: int = flag("v", INT, 0, "log level")
    election: bool = flag("leader-election", BOOL, False, "elect a leader")
    labels: Mapping[str, str] = flag("leader-election-labels", LABELS, {}, "labels of the Lease")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Table(Common):
    address: str = flag("csi-address", STRING, "/run/csi/socket", "the driver's socket")
    timeout_s: float = flag("timeout", DURATION, 15.0, "deadline of a call")
    qps: float = flag("kube-api-qps", FLOAT, 5.0, "requests a second")
    workers: int = flag("worker-threads", UINT, 10, "workers")
    gates: Mapping[str, bool] = flag("feature-gates", GATES, {}, "gates")
    capacity: Mapping[str, str] = flag("capacity", PAIRS, {}, "what there is")


REMOVED = {
    "connection_timeout": Former(True),
    "logtostderr": Former(False),
    "was_verbosity": Former(True, now="--v={}"),
}


def read(*words):
    return parse(Table, words, REMOVED)


@each_row("words", [["-v=5"], ["--v=5"], ["--v", "5"], ["-v", "5"]], ids=" ".join)
def test_FL02_both_dashes_and_both_places_of_the_value(words):
    assert 5 == read(*words).flags.verbosity


def test_without_a_flag_its_default_holds():
    assert (Table(), frozenset(), False) == (read().flags, read().given, read().help_wanted)
    assert ("/run/csi/socket", 15.0, {}) == (Table().address, Table().timeout_s, Table().labels)


def test_the_last_one_wins_and_is_noted_as_given():
    parsed = read("-v=5", "-v=1", "--timeout=15s")
    assert (1, {"v", "timeout"}) == (parsed.flags.verbosity, parsed.given)


def test_maps_accumulate_and_later_keys_overwrite():
    assert {"a": "3", "b": "2"} == read(
        "--leader-election-labels=a:1,b:2", "--leader-election-labels= a : 3 "
    ).flags.labels
    assert {"cpu": "4", "memory": "2Gi"} == read("--capacity=cpu=1,memory=2Gi,", "--capacity= cpu = 4 ").flags.capacity


@each_row("name", ["--time=5s", "--no-such", "-leader=true", "--V=1", "--timeout_s=5s"])
def test_FL03_an_unknown_flag_is_refused_and_none_is_abbreviated(name):
    with pytest.raises(UsageError, match="flag provided but not defined: -") as refusal:
        read(name)
    assert refusal.value.exit_code == 2


def test_FL03_a_near_name_is_proposed():
    with pytest.raises(UsageError, match=r"-time \(did you mean --timeout\?\)"):
        read("--time=5s")


@each_row(
    ("word", "reason"),
    [
        (
            "--timeout=5",
            'invalid value "5" for flag -timeout: time: missing unit .*; allowed: numbers with units, as in 15s',
        ),
        ("--timeout=abc", 'invalid value "abc" for flag -timeout: time: invalid duration'),
        (
            "--leader-election=maybe",
            'invalid value "maybe" for flag -leader-election: parse error; allowed: true or false, after =',
        ),
        ("--leader-election=", 'invalid value "" for flag -leader-election'),
        (
            "--worker-threads=-1",
            'invalid value "-1" for flag -worker-threads: parse error; allowed: a whole number, not negative',
        ),
        ("--kube-api-qps=x", 'invalid value "x" for flag -kube-api-qps: parse error; allowed: a number'),
        ("--v=1.5", 'invalid value "1.5" for flag -v: parse error; allowed: a whole number'),
        ("--v=9223372036854775808", "value out of range"),
        ("--v=09", "parse error"),
        ("--v", "flag needs an argument: -v"),
        ("---v=1", "bad flag syntax: ---v=1"),
        ("-=1", "bad flag syntax: -=1"),
        ("--leader-election-labels=a", '"a" is no pair; allowed: key:value pairs'),
        ("--leader-election-labels=a:b:c", '"a:b:c" is no pair'),
        ("--leader-election-labels=a:b,c", '"c" is no pair'),
        ("--capacity=cpu", '"cpu" is no pair; allowed: name=value pairs, as in cpu=4,memory=8Gi'),
        ("--capacity=cpu=", '"cpu=" is no pair'),
        ("--feature-gates=A", "missing bool value for A"),
        ("--feature-gates=A=maybe", "invalid value of A=maybe"),
        ("--feature-gates==true", "missing bool value for =true"),
    ],
)
def test_FL03_LE06_a_bad_value_says_what_was_read_and_what_is_allowed(word, reason):
    with pytest.raises(UsageError, match=reason) as refusal:
        read(word)
    assert refusal.value.exit_code == 2


@each_row("text", ["1", "t", "T", "true", "TRUE", "True"])
def test_gos_words_for_true(text):
    assert read(f"--leader-election={text}").flags.election is True


@each_row("text", ["0", "f", "F", "false", "FALSE", "False"])
def test_gos_words_for_false(text):
    assert read("--leader-election", f"--leader-election={text}").flags.election is False


def test_a_boolean_never_takes_the_next_word():
    parsed = read("--leader-election", "false", "-v=3")
    assert (True, 0, ("false", "-v=3")) == (parsed.flags.election, parsed.flags.verbosity, parsed.rest)


@each_row("stop", ["--", "-", "word"])
def test_reading_stops_at_two_dashes_and_at_the_first_word_that_is_no_flag(stop):
    parsed = read("-v=1", stop, "-v=2")
    assert 1 == parsed.flags.verbosity
    assert parsed.rest == (("-v=2",) if stop == "--" else (stop, "-v=2"))


@each_row(
    ("text", "value"), [("0x1F", 31), ("010", 8), ("0o17", 15), ("0b101", 5), ("+7", 7), ("-7", -7), ("1_000", 1000)]
)
def test_integers_are_read_in_gos_base_zero(text, value):
    assert value == read(f"--v={text}").flags.verbosity


@each_row(("text", "value"), [("-9223372036854775808", -(2**63)), ("9223372036854775807", 2**63 - 1)])
def test_integers_have_64_bits(text, value):
    assert value == read(f"--v={text}").flags.verbosity
    with pytest.raises(UsageError, match="value out of range"):
        read("--v=-9223372036854775809")


def test_unsigned_integers():
    assert 7 == read("--worker-threads=7").flags.workers
    with pytest.raises(UsageError):
        read("--worker-threads=+7")


@each_row(("text", "value"), [("-1", -1.0), (".5", 0.5), ("1e3", 1000.0), ("2.", 2.0)])
def test_floats(text, value):
    assert value == read(f"--kube-api-qps={text}").flags.qps


@each_row("word", ["-h", "--help", "--h", "-help"])
def test_help_ends_the_reading(word):
    assert read("-v=1", word, "--no-such").help_wanted
    with pytest.raises(UsageError):
        read("--no-such", word)


def test_removed_flags_are_taken_with_their_values_and_noted():
    parsed = read("--connection-timeout", "15s", "--logtostderr", "-connection_timeout=1", "-v=2")
    assert [("connection-timeout", "15s"), ("logtostderr", "true"), ("connection_timeout", "1")] == [
        (name, value) for name, value, _ in parsed.removed
    ]
    assert 2 == parsed.flags.verbosity
    with pytest.raises(UsageError, match="needs an argument"):
        read("--connection-timeout")


@each_row("words", [["--was-verbosity", "3"], ["-was_verbosity=3"]])
def test_a_removed_flag_that_has_another_name_now_is_read_as_that(words):
    parsed = read(*words)
    assert 3 == parsed.flags.verbosity
    assert "--v=3" == parsed.respelled[0][1]
    assert () == parsed.removed


FORMER = {
    "mode": {"central": "--leader-election"},
    "leader-election": {"central": "--leader-election", "old": "-v=3", "older": "--mode=central"},
}


@each_row(
    ("words", "election", "level", "told"),
    [
        (["--mode=central"], True, 0, [("--mode=central", "--leader-election")]),
        (["-mode", "central", "-v=2"], True, 2, [("--mode=central", "--leader-election")]),
        (["--leader-election", "central", "-v=2"], True, 2, [("--leader-election=central", "--leader-election")]),
        (["--leader-election=old"], False, 3, [("--leader-election=old", "-v=3")]),
        (
            ["--leader-election=older"],
            True,
            0,
            [("--leader-election=older", "--mode=central"), ("--mode=central", "--leader-election")],
        ),
        (["--leader-election=true"], True, 0, []),
    ],
)
def test_27a3_former_spellings_are_read_as_what_says_the_same_today(words, election, level, told):
    parsed = parse(Table, words, REMOVED, FORMER)
    assert (election, level, told) == (parsed.flags.election, parsed.flags.verbosity, list(parsed.respelled))


def test_27a3_a_former_flag_with_another_value_is_no_flag():
    with pytest.raises(UsageError, match="flag provided but not defined: -mode"):
        parse(Table, ["--mode=local"], REMOVED, FORMER)


@given(st.lists(st.text(alphabet="-=vh timeou,:1s0", max_size=12), max_size=6))
def test_any_command_line_is_read_or_refused(words):
    try:
        parsed = read(*words)
    except UsageError:
        return
    assert isinstance(parsed.flags, Table)


# -- feature gates

KNOWN = {"Old": Gate(GateStage.GA, True), "Young": Gate(GateStage.ALPHA, False), "Middle": Gate(GateStage.BETA, True)}


def decided(*texts):
    return decide_gates(parse(Table, [f"--feature-gates={text}" for text in texts]).flags.gates, KNOWN)


def test_without_settings_the_defaults_hold():
    assert {"Old": True, "Young": False, "Middle": True} == decided().enabled
    assert () == decided().warnings


def test_blanks_and_empty_items_are_fine_and_the_flag_repeats():
    gates = decided(" Young = true ,, Middle=false", "Young=false,")
    assert {"Old": True, "Young": False, "Middle": False} == gates.enabled


def test_all_alpha_and_all_beta_move_what_is_not_set_itself():
    assert {"Old": True, "Young": True, "Middle": False} == decided("AllAlpha=true,AllBeta=false").enabled
    assert decided("AllAlpha=true,Young=false").enabled["Young"] is False


def test_an_unknown_gate_is_named_with_the_known_ones():
    with pytest.raises(
        ConfigError, match="unrecognized feature gate: NoSuch; known are AllAlpha, AllBeta, Middle, Old, Young"
    ) as refusal:
        decided("Young=true,NoSuch=true")
    assert refusal.value.exit_code == 1


def test_a_ga_gate_that_is_set_gives_a_warning():
    (warning,) = decided("Old=false").warnings
    assert "GA feature gate Old=false" in warning
    assert decided("Old=false").enabled["Old"] is False


def test_gates_of_the_api_server_library_are_taken_without_effect():
    gate = min(NO_EFFECT)
    (warning,) = decided(f"{gate}=true").warnings
    assert f"{gate} has no effect" in warning
    assert gate not in decided(f"{gate}=true").enabled


def test_the_usage_lists_the_gates():
    assert "Young=true|false (ALPHA - default=false)" in gates_help(KNOWN)
    assert "AllBeta=true|false (BETA - default=false)" in gates_help(KNOWN)
