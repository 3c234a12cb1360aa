"""Item 30.4: the command line of `mooring proxy`, and what it prints."""

from __future__ import annotations

from pathlib import Path

import pytest

from mooring.cli import proxy
from mooring.conform.proxy.faults import Fault, Faults, Kind
from mooring.conform.proxy.proxy import Passed
from mooring.csi.driver import Driver
from mooring.csi.errors import DriverError
from mooring.csi.proto import csi_pb2 as csi
from mooring.wire.grpc.codes import Code
from tests.support.rows import each_row

BOTH = ("--listen=unix:///tmp/nowhere/a.sock", "--to=unix:///tmp/nowhere/b.sock")


@each_row(
    ("words", "said"),
    [
        (BOTH[:1], "to: required"),
        (BOTH[1:], "listen: required"),
        (("--listen=tcp://a:1", BOTH[1]), "listen: 'tcp://a:1' is not the path of a unix socket"),
        (("--listen=/tmp/nowhere//b.sock", "--to=unix:///tmp/nowhere//b.sock"), "listen: is the driver's own socket"),
        ((*BOTH, "--faults=/nowhere"), "faults: can't read /nowhere"),
    ],
)
def test_a_wrong_command_line(words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert 2 == proxy.run(words, "mooring proxy")
    assert said in capsys.readouterr().err


def test_a_wrong_script_ends_it_before_it_serves(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "f.yaml").write_text("faults:\n- do: dorp\n")
    assert 2 == proxy.run((f"--listen={tmp_path}/a.sock", BOTH[1], f"--faults={tmp_path}/f.yaml"), "mooring proxy")
    assert f"{tmp_path}/f.yaml:2: do has no 'dorp' (did you mean drop?)" in capsys.readouterr().err


def test_a_place_that_can_not_be_used(capsys: pytest.CaptureFixture[str]) -> None:
    assert 1 == proxy.run(BOTH, "mooring proxy")
    assert "the folder of socket '/tmp/nowhere/a.sock' does not exist" in capsys.readouterr().err
    assert 1 == proxy.run((*BOTH, "--record=/nowhere/x"), "mooring proxy")
    assert "record: can't write /nowhere/x" in capsys.readouterr().err


def test_a_call_in_a_line() -> None:
    rpc = Driver.delete_volume
    request = csi.DeleteVolumeRequest(volume_id="a\x1b[2J", secrets={"p": "hunter22"})

    def line(**end: object) -> str:
        return proxy.line_of(
            Passed(
                1,
                rpc.path,
                rpc,
                request,
                **{"answer": None, "error": None, **end},
                began_s=0.0,
                seconds=0.25,
                fault=None,
            )
        )  # type: ignore[arg-type]

    asked = 'DeleteVolume {"secrets":"***stripped***","volume_id":"a\\u001b[2J"} -> '
    assert f"{asked}OK {{}} in 0.250s" == line(answer=csi.DeleteVolumeResponse())
    assert f"{asked}Internal: no ***stripped*** in 0.250s" == line(error=DriverError(Code.INTERNAL, "no hunter22"))
    assert f"{asked}the caller gave up in 0.250s" == line()
    assert f"{asked}it did not reach the driver" == line(reached=False)
    unknown = proxy.line_of(Passed(1, "/csi.v1.Future/Do", None, None, None, None, 0.0, 0.25, None))
    assert "Do (this CSI does not know it) -> passed on in 0.250s" == unknown


def test_the_end_counts_faults() -> None:
    faults = Faults(
        [Fault(Kind.CUT, "f:1", times=2), Fault(Kind.HANG, "f:2", rpcs=("Probe",)), Fault(Kind.DROP, "f:3", nth=(4,))],
        0,
    )
    for _ in range(4):
        faults.pick(Driver.create_volume.path, None)
    assert [
        "f:1: the connection is cut before the effect: 2 times",
        "f:2: it hangs, and does not reach the driver: never happened",
        "f:3: the answer is dropped, after the effect: once",
    ] == list(proxy._ending([], faults))
