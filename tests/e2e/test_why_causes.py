"""`mooring why` beside faults that a seed chooses (issue 29): twenty causes, each made in the driver or in the cluster,
each named.

The judge is the cause that was made: its code and message, the step at which it stands, and whose move it is.
"""

from __future__ import annotations

import dataclasses
import itertools
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from mooring.wire.grpc.codes import Code, go_name
from tests.e2e.nights import Json, Night, go_plane, our_plane
from tests.support.builders import a_claim, a_new_snapshot, a_pod, a_snapshot_class
from tests.support.folder_driver import FolderDriver

pytestmark = [pytest.mark.long, pytest.mark.real]

SEED: Final = 29
COUNT: Final = 20
USERS: Final = (Code.INVALID_ARGUMENT, Code.OUT_OF_RANGE, Code.UNAUTHENTICATED, Code.ALREADY_EXISTS)
"""After these it is for the owner of the class, the secret or the claim to move."""
LASTING: Final = (
    Code.INTERNAL,
    Code.RESOURCE_EXHAUSTED,
    Code.FAILED_PRECONDITION,
    Code.PERMISSION_DENIED,
    Code.UNAVAILABLE,
    *USERS,
)


class Scene:
    """One cause's own objects: names with its number in them. driver: over the same folder as the one that serves."""

    def __init__(self, night: Night, number: int) -> None:
        self.night, self.number, self.driver = night, number, FolderDriver(night.folder / "driver")

    def name(self, word: str) -> str:
        return f"{word}-{self.number}"

    def claim(self, *, bound: bool = False) -> str:
        name = self.name("claim")
        self.night.create(a_claim(name, sc="folders"))
        if bound:
            self.night.is_healed(f"pvc/{name}")
        return name

    def pod(self, *, attached: bool = False) -> str:
        name, claim = self.name("pod"), self.claim(bound=True)
        self.night.create(a_pod(name, claim, node="n1"))
        if attached:
            self.night.is_healed(f"pod/{name}")
        return name

    def snapshot(self) -> str:
        name = self.name("snapshot")
        self.night.create(a_new_snapshot(name, claim=self.name("claim"), snapshot_class="pictures"))
        return name


@dataclasses.dataclass(frozen=True)
class Fault:
    """What the driver refuses. make: brings an object to the refused call, and gives what is asked about. step: the
    link's name begins so.

    in_log: the Go sidecar tells users that it failed, and writes the driver's error to its log alone.
    """

    method: str
    step: str
    ready: Callable[[Scene], Any]
    make: Callable[[Scene], str]
    in_log: bool = False


def _provisions(scene: Scene) -> str:
    return f"pvc/{scene.claim()}"


def _attaches(scene: Scene) -> str:
    scene.night.create(a_pod(scene.name("pod"), scene.name("claim"), node="n1"))
    return f"pod/{scene.name('pod')}"


def _detaches(scene: Scene) -> str:
    scene.night.kubectl("delete", "pod", scene.name("pod"), "--grace-period=0", "--force")
    claim = scene.name("claim")
    volume = scene.night.kubectl("get", "pvc", claim, "-o", "jsonpath={.spec.volumeName}")
    return f"pv/{volume}"


def _grows(scene: Scene) -> str:
    patch = '{"spec": {"resources": {"requests": {"storage": "3Gi"}}}}'
    scene.night.kubectl("patch", "pvc", scene.name("claim"), "--type=merge", "-p", patch)
    return f"pvc/{scene.name('claim')}"


def _snapshots(scene: Scene) -> str:
    return f"volumesnapshot/{scene.snapshot()}"


def _deletes(scene: Scene) -> str:
    claim = scene.name("claim")
    volume = scene.night.kubectl("get", "pvc", claim, "-o", "jsonpath={.spec.volumeName}")
    scene.night.kubectl("delete", "pvc", claim)
    scene.night.kubectl("delete", "pv", volume, "--wait=false")
    return f"pv/{volume}"


def _deletes_snapshot(scene: Scene) -> str:
    scene.night.kubectl("delete", "volumesnapshot", scene.name("snapshot"), "--wait=false")
    return f"volumesnapshot/{scene.name('snapshot')}"


def _ready_snapshot(scene: Scene) -> None:
    scene.claim(bound=True)
    scene.night.is_healed(f"volumesnapshot/{scene.snapshot()}")


FAULTS: Final = (
    Fault("create_volume", "claim", lambda scene: None, _provisions),
    Fault("controller_publish_volume", "attach", lambda scene: scene.claim(bound=True), _attaches),
    Fault("controller_unpublish_volume", "attach", lambda scene: scene.pod(attached=True), _detaches),
    Fault("controller_expand_volume", "growth", lambda scene: scene.claim(bound=True), _grows),
    Fault("create_snapshot", "snapshot", lambda scene: scene.claim(bound=True), _snapshots),
    Fault("delete_volume", "finalizer", lambda scene: scene.claim(bound=True), _deletes),
    Fault("delete_snapshot", "finalizer", _ready_snapshot, _deletes_snapshot, in_log=True),
)
CAUSES: Final = tuple(itertools.product(FAULTS, LASTING))


def chosen() -> Iterator[tuple[Fault, Code]]:
    """Each fault once at least."""
    randomness = random.Random(SEED)
    yield from ((fault, randomness.choice(LASTING)) for fault in FAULTS)
    yield from randomness.sample(CAUSES, COUNT - len(FAULTS))


def named(night: Night, number: int, fault: Fault, code: Code) -> None:
    """The cause is made, named, and ended."""
    scene, message = Scene(night, number), f"cause {number} of the night"
    hidden = fault.in_log and night.plane is not None
    fault.ready(scene)
    scene.driver.fail(fault.method, code, message)
    try:
        asked = fault.make(scene)

        def tells(link: Json) -> bool:
            told = "its log" in link["text"] if hidden else message in link["error"] and link["code"] == go_name(code)
            return told and link["name"].startswith(fault.step)

        link = night.names(asked, tells)
        assert ("failed", "user" if code in USERS and not hidden else "driver") == (link["state"], link["mover"]), link
        assert hidden or link["meaning"]
        assert link["commands"]
    finally:
        scene.driver.heal(fault.method)


def all_are_named(night: Night) -> None:
    night.create(a_snapshot_class("pictures", driver=FolderDriver.name))
    failures: list[Exception] = []
    for number, (fault, code) in enumerate(chosen()):
        try:
            named(night, number, fault, code)
        except (AssertionError, KeyError) as error:
            error.add_note(f"cause {number}: {fault.method} answers {code.name}")
            failures.append(error)
    if failures:
        raise ExceptionGroup(f"{len(failures)} of {COUNT} causes", failures)


def test_with_the_go_sidecars(tmp_path: Path) -> None:
    with go_plane(tmp_path) as night:
        all_are_named(night)


def test_on_the_embedded_plane(tmp_path: Path) -> None:
    with our_plane(tmp_path) as night:
        all_are_named(night)
