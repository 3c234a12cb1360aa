"""`mooring conform` and the real csi-sanity say the same of a driver, test by test; and what conform says beyond it."""

from __future__ import annotations

import dataclasses
import json
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from mooring.conform.checks.all import CHECKS
from tests import sanity
from tests.support.mooring_dev import needs_mounts, needs_root
from tests.support.programs import Program
from tests.support.real import binary
from tests.support.waiting import eventually

pytestmark = [pytest.mark.real, pytest.mark.slow]

MOORING: Final = [sys.executable, "-m", "mooring.cli.mooring"]


@pytest.mark.long
def test_conform_and_csi_sanity_agree_on_the_reference_driver(tmp_path: Path) -> None:
    binary("csi-sanity")
    needs_mounts()
    sanity.run(tmp_path, "links")
    theirs = {" > ".join(names) for names in sanity.specs(tmp_path / "report.json", "passed")}
    flags = [flag for flag in sanity.ALL if not flag.startswith("--call-log")]
    command = [
        *MOORING,
        "driver",
        "hostpath",
        "--endpoint=unix://{socket}",
        f"--state={tmp_path / 'other'}",
        "--node-id={node}",
    ]
    ours = {one["name"]: one["result"] for one in conform([*command, "--mounts=mount", *flags], 0)}
    for check in CHECKS:
        for test in check.sanity:
            assert (ours[check.name] == "kept") == (test in theirs), (
                f"{check.name}: {ours[check.name]}, csi-sanity: {test}"
            )
    assert len([test for check in CHECKS for test in check.sanity]) == sanity.TESTS


@dataclasses.dataclass(frozen=True)
class Public:
    """A driver of other people's. flags: `{socket}` and `{state}` stand for paths. passed: how many of csi-sanity's
    tests it passes.

    beyond: checks that find it broken where csi-sanity does not, each with the rules.
    """

    flags: str
    passed: int
    beyond: Mapping[str, set[str]]


PUBLIC: Final = {
    # csi-driver-host-path 1.18. It lists the node "" for volumes that are published to none, without
    # LIST_VOLUMES_PUBLISHED_NODES; a page of ListVolumes is cut and has no next_token; of several snapshots of a volume
    # ListSnapshots gives one; ControllerGetVolume answers OK for any id.
    "hostpathplugin": Public(
        "--endpoint=unix://{socket} --statedir={state} --nodeid=node-1 --enable-attach --attach-limit=2 "
        "--enable-controller-modify-volume --accepted-mutable-parameter-names=iops",
        94,
        {
            "get-snapshot-without-snapshot-id": {"CSI121"},  # csi-sanity takes any error, as NotFound
            "list-volumes": {"CSI106"},
            "list-what-there-is": {"CSI106"},
            "list-while-published": {"CSI106"},
            "list-page-by-page": {"CSI106", "CSI605"},
            "list-snapshots-of-a-volume": {"CSI605"},
            "controller-get-volume-without-volume-id": {"CSI121"},
            "get-unknown": {"CSI122"},
        },
    ),
    # The mock driver of Kubernetes 1.36. It mounts nothing, forgets its volumes when it ends, and does not
    # remove the socket that a killed process of it has left.
    "csi-mock-driver": Public(
        "--endpoint=unix://{socket} --attach-limit=2",
        76,
        {
            "node-capabilities": {"CSI108"},
            "unpublish-from-another-node": {"CSI215"},  # the list has other keys while the volume is published
            "life": {"CSI511"},
            "life-with-lost-answers": {"CSI511"},
            "unmount-removes": {"CSI511"},
            "mount-readonly": {"CSI511"},
            "stats": {"CSI511"},
            "stats-elsewhere": {"CSI511"},
            "expand-while-published": {"CSI511"},
            "mount-at-once": {"CSI511"},
            "caller-goes-away-on-node": {"CSI511"},
            "list-snapshots-of-a-volume": {"CSI605"},
            "controller-get-volume-without-volume-id": {"CSI121", "CSI708"},
            "data-stays": {"CSI511"},
            "data-in-restore": {"CSI511"},
            "data-in-clone": {"CSI511"},
            "volume-after-kill": {"CSI209", "CSI710"},
            "list-while-published": {"CSI215"},  # a published one has got more context
            "unpublish-everywhere": {"CSI309"},
            "long-paths": {"CSI511"},
        },
    ),
}

BY_CHANCE: Final = {"kill-between-calls", "kill-in-calls", "create-at-once"}
"""csi-driver-host-path 1.18 writes its state in place: killed at the wrong moment it never starts again (CSI710). The
mock driver sometimes makes two volumes for equal calls at once (CSI201).
"""


@pytest.mark.parametrize("name", PUBLIC)
def test_conform_finds_what_csi_sanity_finds_in_public_drivers_and_more(tmp_path: Path, name: str) -> None:
    program, public = binary(name), PUBLIC[name]
    binary("csi-sanity")
    needs_root()
    by_sanity(tmp_path, program, public)
    ended = {
        state: {" > ".join(one) for one in sanity.specs(tmp_path / "report.json", state)}
        for state in ("passed", "failed", "skipped")
    }
    assert public.passed == len(ended["passed"])
    state = tmp_path / "other"
    state.mkdir()
    ours = {one["name"]: one for one in conform([str(program), *flags(public, "{socket}", state)], 1)}
    broken_there = {check.name for check in CHECKS if ended["failed"].intersection(check.sanity)}
    for check in CHECKS:
        result = ours[check.name]["result"]
        for test in check.sanity:
            assert (result == "skipped") == (test in ended["skipped"]), f"{check.name}: {result}, {test}"
        assert check.name not in broken_there or result in ("broken", "warned")
    beyond = {
        one: set(ours[one]["broken"])
        for one in ours.keys() - broken_there - BY_CHANCE
        if ours[one]["result"] != "skipped"
    }
    assert {one: rules for one, rules in beyond.items() if rules} == public.beyond
    assert len(ended["failed"]) == sum(test in ended["failed"] for check in CHECKS for test in check.sanity), (
        "each failure has its check"
    )


def flags(public: Public, socket: str, state: Path) -> list[str]:
    return [word.replace("{socket}", socket).replace("{state}", str(state)) for word in public.flags.split()]


def by_sanity(folder: Path, program: Path, public: Public) -> None:
    """The driver's mounts are made in a namespace of its own, and end with it."""
    socket, state = folder / "csi.sock", folder / "state"
    state.mkdir()
    private = ["unshare", "--mount", "--propagation=private"]
    running = Program([*private, program, *flags(public, str(socket), state)], folder / "driver.log")
    try:
        eventually(lambda: socket.exists() or running.assert_alive(), 30, "the driver serves")
        sanity.sanity(folder, socket, "mount")
    finally:
        running.kill()


def conform(command: list[str], exit_code: int) -> list[dict[str, Any]]:
    """How each check ended."""
    words = [*MOORING, "conform", shlex.join(command), "-o", "json", "--mutable-parameter", "iops=3000"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=250, check=False)
    assert done.returncode == exit_code, done.stdout[-3000:] + done.stderr[-3000:]
    found: list[dict[str, Any]] = json.loads(done.stdout)["checks"]
    return found
