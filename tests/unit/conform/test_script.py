"""Item 30.4: the proxy's scripts of faults: how they are read, and which call gets which fault."""

from __future__ import annotations

import pytest

from mooring.base.errors import ConfigError
from mooring.conform.proxy.faults import Fault, Faults, Kind, When
from mooring.conform.proxy.script import script_of
from mooring.csi.driver import Driver
from mooring.csi.proto import csi_pb2 as csi
from mooring.wire.grpc.codes import Code
from tests.support.rows import each_row

CREATE, DELETE, STAGE = Driver.create_volume.path, Driver.delete_volume.path, Driver.node_stage_volume.path


def test_every_kind_with_all_its_words() -> None:
    script = script_of(
        """
seed: 7
faults:
- {do: delay, for: 1.5s, when: after, rpc: [CreateVolume, Node*]}
- do: drop
  rpc: CreateVolume
  request: {name: pvc-*, parameters.type: fast}
  nth: [1, 3]
- {do: fail, code: ResourceExhausted, message: full, when: after, probability: 0.5, times: 2}
- {do: twice, at_once: true, every: 3}
- {do: hang, rpc: /csi.v1.Future/*}
- {do: cut}
""",
        "f.yaml",
    )
    assert 7 == script.seed
    assert script.faults == (
        Fault(Kind.DELAY, "f.yaml:4", ("CreateVolume", "Node*"), seconds=1.5, when=When.AFTER),
        Fault(Kind.DROP, "f.yaml:5", ("CreateVolume",), (("name", "pvc-*"), ("parameters.type", "fast")), (1, 3)),
        Fault(
            Kind.FAIL,
            "f.yaml:9",
            code=Code.RESOURCE_EXHAUSTED,
            message="full",
            when=When.AFTER,
            probability=0.5,
            times=2,
        ),
        Fault(Kind.TWICE, "f.yaml:10", at_once=True, every=3),
        Fault(Kind.HANG, "f.yaml:11", ("/csi.v1.Future/*",)),
        Fault(Kind.CUT, "f.yaml:12"),
    )
    assert len({str(fault) for fault in script.faults}) == 6


@each_row(
    ("text", "said"),
    [
        ("", "f.yaml:1: the script is empty: give faults"),
        ("seed: 1", "f.yaml:1: the script has no faults"),
        ("seed: x\nfaults: [{do: cut}]", "f.yaml:1: seed must be a whole number, 0 or more, got 'x'"),
        ("\nfault:\n- {do: cut}", "f.yaml:2: a script has no 'fault' (did you mean faults?)"),
        ("faults: {do: cut}", "f.yaml:1: faults must be a list: begin each with a dash"),
        ("faults:\n- cut", "f.yaml:2: a fault must be a map"),
        (
            "faults:\n- {rpc: CreateVolume}",
            "f.yaml:2: a fault says what it does: give `do`, one of delay, drop, fail, twice, hang, cut",
        ),
        ("faults:\n- {do: dealy, for: 1s}", "f.yaml:2: do has no 'dealy' (did you mean delay?)"),
        (
            "faults:\n- do: drop\n  rpc: CreateVolum",
            "f.yaml:3: there is no call 'CreateVolum' in CSI (did you mean CreateVolume?)",
        ),
        (
            "faults:\n- do: dropp\n- do: cut\n- do: drop\n  for: 1s",
            (
                "f.yaml:2: do has no 'dropp' (did you mean drop?)\nf.yaml:5: the fault drop has no 'for'; it "
                "belongs to delay"
            ),
        ),
        ("faults:\n- do: drop\n  for: 1s", "f.yaml:3: the fault drop has no 'for'; it belongs to delay"),
        (
            "faults:\n- do: drop\n  probabilty: 1",
            "f.yaml:3: the fault drop has no 'probabilty' (did you mean probability?)",
        ),
        ("faults:\n- do: cut\n- do: delay", "f.yaml:3: the fault delay needs `for`, as in `for: 2s`"),
        ("faults:\n- do: fail", "f.yaml:2: the fault fail needs `code`, as in `code: Unavailable`"),
        ("faults:\n- do: fail\n  code: NOT_FOUND", "f.yaml:3: code has no 'NOT_FOUND' (did you mean NotFound?)"),
        ("faults:\n- do: fail\n  code: OK", "f.yaml:3: code has no 'OK'"),
        (
            "faults:\n- do: delay\n  for: 2",
            "f.yaml:3: for must be a duration with its unit, as in 300ms or 2s, got '2'",
        ),
        ("faults:\n- do: cut\n  nth: 0", "f.yaml:3: nth must be a whole number, 1 or more, got '0'"),
        ("faults:\n- do: cut\n  probability: 2", "f.yaml:3: probability must be more than 0 and 1 at the most"),
        ("faults:\n- do: cut\n  when: later", "f.yaml:3: when has no 'later'"),
        ("faults:\n- do: cut\n  do: drop", "f.yaml:3: 'do' stands twice: take one away"),
        (
            "faults:\n- do: drop\n  rpc: CreateVolume\n  request:\n    nam: x",
            "f.yaml:5: no request of CreateVolume has a field 'nam' (did you mean name?)",
        ),
        (
            "faults:\n- do: drop\n  rpc: CreateVolume\n  request: {secrets.a: x}",
            "f.yaml:4: no request of CreateVolume has a field",
        ),
        ("faults:\n- do: drop\n  rpc: CreateVolume\n  request: {name: [x]}", "f.yaml:4: name must be one word"),
        ("faults: [{do: cut}", "f.yaml:1: is no YAML: "),
        ("faults:\n- do: cut\n bad", "f.yaml:3: is no YAML: "),
    ],
)
def test_a_wrong_script_is_told_with_its_line_and_the_next_step(text: str, said: str) -> None:
    with pytest.raises(ConfigError) as told:
        script_of(text, "f.yaml")
    assert str(told.value).startswith(said)
    assert 2 == told.value.exit_code


def picks(faults: Faults, *calls: tuple[str, csi.CreateVolumeRequest | None]) -> list[str]:
    """The kind of each call's fault, "" for none."""
    return [str(found.kind) if (found := faults.pick(path, request)) is not None else "" for path, request in calls]


def created(name: str, **parameters: str) -> tuple[str, csi.CreateVolumeRequest]:
    capability = csi.VolumeCapability(
        access_mode=csi.VolumeCapability.AccessMode(mode=csi.VolumeCapability.AccessMode.MULTI_NODE_MULTI_WRITER)
    )
    return CREATE, csi.CreateVolumeRequest(
        name=name, parameters=parameters, volume_capabilities=[csi.VolumeCapability(), capability]
    )


def test_a_call_is_chosen_by_its_name_or_path() -> None:
    faults = Faults([Fault(Kind.CUT, rpcs=("Node*", "/csi.v1.Controller/Del*"))], 0)
    assert ["", "cut", "cut", ""] == picks(
        faults, (CREATE, None), (DELETE, None), (STAGE, None), ("/csi.v1.Future/Do", None)
    )


def test_a_call_is_chosen_by_its_fields() -> None:
    def chosen(request: dict[str, str], *calls: tuple[str, csi.CreateVolumeRequest | None]) -> list[str]:
        return picks(Faults([Fault(Kind.CUT, request=tuple(request.items()))], 0), *calls)

    assert ["cut", "", ""] == chosen({"name": "pvc-*"}, created("pvc-1"), created("x"), (CREATE, None))
    assert ["cut", ""] == chosen({"parameters.a.b/c": "x?"}, created("a", **{"a.b/c": "xy"}), created("b"))
    assert ["cut"] == chosen({"volume_capabilities.access_mode.mode": "MULTI_*"}, created("a"))
    assert ["", "cut"] == chosen({"name": "a", "parameters.type": "fast"}, created("a"), created("a", type="fast"))


def test_a_call_is_chosen_by_its_number() -> None:
    calls = [created("a")] * 6
    assert ["", "cut", "", "", "cut", ""] == picks(Faults([Fault(Kind.CUT, nth=(2, 5))], 0), *calls)
    assert ["", "", "cut", "", "", "cut"] == picks(Faults([Fault(Kind.CUT, every=3)], 0), *calls)
    assert ["cut", "cut", "", "", "", ""] == picks(Faults([Fault(Kind.CUT, times=2)], 0), *calls)


def test_the_first_fault_wins_and_each_counts_all_calls() -> None:
    faults = Faults([Fault(Kind.CUT, nth=(1,)), Fault(Kind.HANG, nth=(2,)), Fault(Kind.DROP, nth=(1,))], 0)
    assert ["cut", "hang", ""] == picks(faults, *[created("a")] * 3)
    assert [1, 1, 0] == [count for _, count in faults.counts()]


def test_a_seed_repeats_and_another_differs() -> None:
    def run(seed: int) -> list[str]:
        return picks(Faults([Fault(Kind.CUT, probability=0.5)], seed), *[created("a")] * 200)

    assert run(3) == run(3)
    assert run(3) != run(4)
    assert 60 < run(3).count("cut") < 140
