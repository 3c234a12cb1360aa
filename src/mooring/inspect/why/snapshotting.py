"""The links of a snapshot, or of a group snapshot: its claims, its class, its content, the driver's answer.

The snapshot controller's own judgement is asked; its reason gets advice here. The texts that the programs wrote on the
objects come first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import msgspec

from mooring.api.core import PERSISTENT_VOLUME_CLAIMS
from mooring.api.group_snapshot import GROUP, VolumeGroupSnapshot
from mooring.api.matching import selects
from mooring.api.meta import Key, key_of
from mooring.api.snapshot import SnapshotError
from mooring.api.snapshot_kinds import SINGLES, Content, Snapshot, class_name_of, row_of
from mooring.base.clock import seconds_of
from mooring.cluster.snapshots import reasons as why
from mooring.cluster.snapshots.decide import decide_snapshot
from mooring.cluster.snapshots.view import View, bound_name, claim_of, content_key, is_ready
from mooring.inspect.scene import Scene
from mooring.inspect.why.chain import Command, Link, Mover, State, unseen_link
from mooring.inspect.why.claims import claim_link
from mooring.inspect.why.diagnosis import diagnosed, failed_link
from mooring.inspect.why.leaders import silent_link
from mooring.inspect.why.logs import log_outside_pods

CONTROLLER: Final = "snapshot-controller"
BACK_OFF: Final = "csi-snapshotter tries again by itself"
FOREVER_S: Final = float("inf")
"""Since when this process waits: nobody outside of the snapshot controller knows, and nothing that is stuck has just
begun.
"""


def view_of(scene: Scene) -> View:
    return View(
        scene.snapshots,
        scene.contents,
        scene.snapshot_classes,
        scene.claims,
        scene.volumes,
        scene.nodes,
        scene.groups,
        scene.group_contents,
        scene.group_classes,
        has_groups=True,
    )


def snapshot_links(scene: Scene, snapshot: Snapshot) -> tuple[Link, ...]:
    """The links of a snapshot, or a group, that is not being deleted."""
    links = tuple(claim_link(scene, key) for key in claims_of(scene, snapshot))
    if is_ready(snapshot):
        return (*links, Link("snapshot", State.DONE, f"ready to use, in the content {bound_name(snapshot)}"))
    name, row = class_name_of(snapshot), row_of(snapshot)
    if name and scene.is_hidden(row.classes, Key("", name)):
        return (*links, unseen_link("class", f'its class "{name}" could not be seen'))
    because = decide_snapshot(view_of(scene), row, key_of(snapshot), FOREVER_S).because
    return (*links, ADVICE[because.__class__](scene, snapshot, because))


def claims_of(scene: Scene, snapshot: Snapshot) -> list[Key]:
    """The claims that it is to be made of."""
    if not isinstance(snapshot, VolumeGroupSnapshot):
        key = claim_of(snapshot)
        return [key] if key is not None else []
    selector, namespace = snapshot.spec.source.selector, snapshot.metadata.namespace
    if selector is None:
        return []
    claims = (one for one in scene.claims.values() if one.metadata.namespace == namespace)
    return sorted((key_of(one) for one in claims if selects(selector, one.metadata.labels)), key=str)


def content_of(scene: Scene, snapshot: Snapshot) -> Content | None:
    contents = scene.contents if row_of(snapshot) is SINGLES else scene.group_contents
    found: Content | None = contents.get(content_key(snapshot))
    return found


def _made_s(snapshot: Snapshot) -> float:
    return seconds_of(snapshot.metadata.creation_timestamp)


def _error(snapshot: Snapshot, content: Content | None) -> SnapshotError | None:
    """The last error, the driver's before the controller's."""
    theirs = content.status.error if content is not None and content.status else None
    own = snapshot.status.error if snapshot.status else None
    return next((one for one in (theirs, own) if one is not None and one.message), None)


def _driver(scene: Scene, snapshot: Snapshot) -> str:
    """The driver of its content, else of the first of its claims that has a CSI volume; "" for none."""
    content = content_of(scene, snapshot)
    if content is not None:
        return content.spec.driver
    for key in claims_of(scene, snapshot):
        claim = scene.claims.get(key)
        pv = (
            scene.volumes.get(Key("", claim.spec.volume_name)) if claim is not None and claim.spec.volume_name else None
        )
        if pv is not None and pv.spec.csi is not None:
            return pv.spec.csi.driver
    return ""


# -- advice for each reason of the snapshot controller for a snapshot that lives


def _done(scene: Scene, snapshot: Snapshot, because: Any) -> Link:
    return Link("snapshot", State.DONE, str(because))


def _class(scene: Scene, snapshot: Snapshot, because: why.ClassMissing | why.NoDefaultClass) -> Link:
    row, name = row_of(snapshot), class_name_of(snapshot)
    driver, error = _driver(scene, snapshot), _error(snapshot, None)
    text = f'its {row.classes.name} "{name}" does not exist' if name else _no_default(driver, because)
    marked = [one.metadata.name for one in view_of(scene).classes_of(row).values() if one.driver == driver]
    version = scene.group_version() if row.classes.group == GROUP else row.classes.version
    line = _new_class(f"{row.classes.group}/{version}", row.classes.name, row.default_class, name, driver)
    make = Command(line, "safe: makes the class; its snapshots are deleted with their objects")
    if not name and marked:
        resource = f"{row.classes.plural}.{row.classes.group}"
        make = Command(
            f"kubectl annotate {resource} {min(marked)} {row.default_class}=true",
            "safe: snapshots that name no class get this one",
        )
    return Link(
        "class",
        State.FAILED,
        text,
        Mover.USER,
        "whoever makes snapshot classes, or the owner of the snapshot",
        _made_s(snapshot),
        (error.message or "") if error else "",
        retry=f"{CONTROLLER} looks again when the class is created",
        commands=(make, Command(f"kubectl get {row.classes.plural}", "reads only: the classes that are there")),
    )


def _no_default(driver: str, because: Any) -> str:
    text = "it names no class, and there is no default one" + (
        f" for the driver {driver} of its volume" if driver else ""
    )
    return text if "cannot find default" in str(because) else str(because)


def _new_class(api_version: str, kind: str, default_class: str, name: str, driver: str) -> str:
    """name: "" for a default class of the driver."""
    default = "" if name else f', annotations: {{{default_class}: "true"}}'
    return (
        f"printf 'apiVersion: {api_version}\\nkind: {kind}\\n"
        f"metadata: {{name: {name or 'snapshots'}{default}}}\\ndriver: {driver or 'DRIVER'}\\ndeletionPolicy: "
        "Delete\\n' "
        "| kubectl apply -f -"
    )


def _wrong(scene: Scene, snapshot: Snapshot, because: Any) -> Link:
    kind, key = row_of(snapshot).snapshots, key_of(snapshot)
    look = Command(
        f"kubectl -n {key.namespace} get {kind.plural} {key.name} -o yaml", "reads only: what it names as its source"
    )
    contents = Command(
        f"kubectl get {row_of(snapshot).contents.plural}", "reads only: the contents, and whose they are"
    )
    who = "the owner of the snapshot"
    return Link("snapshot", State.FAILED, str(because), Mover.USER, who, _made_s(snapshot), commands=(look, contents))


def _cant_create(scene: Scene, snapshot: Snapshot, because: why.CantCreate) -> Link:
    claims = claims_of(scene, snapshot)
    hidden = next((key for key in claims if scene.is_hidden(PERSISTENT_VOLUME_CLAIMS, key)), None)
    if hidden is not None:
        return unseen_link("snapshot", f'its claim "{hidden}" could not be seen')
    if any(claim_link(scene, key).state is not State.DONE for key in claims):
        return Link(
            "snapshot",
            State.WAITING,
            "comes after its claim",
            Mover.CLUSTER,
            CONTROLLER,
            _made_s(snapshot),
            because.problem,
        )
    error = _error(snapshot, content_of(scene, snapshot))
    return msgspec.structs.replace(_wrong(scene, snapshot, because), error=(error.message or "") if error else "")


def _not_made(scene: Scene, snapshot: Snapshot, because: why.Creating) -> Link:
    return _controller_works(scene, snapshot, f"{CONTROLLER} has not made its content yet")


def _controller_works(scene: Scene, snapshot: Snapshot, because: Any) -> Link:
    error = _error(snapshot, content_of(scene, snapshot))
    if error is not None:
        return _failed(scene, snapshot, error)
    silent = silent_link(scene, "snapshot", CONTROLLER, "")
    if silent is not None:
        return silent
    pods = Command(f"kubectl get pods -A | grep {CONTROLLER}", "reads only: whether that controller runs")
    look = log_outside_pods(scene) or pods
    return Link("snapshot", State.WAITING, str(because), Mover.CLUSTER, CONTROLLER, _made_s(snapshot), commands=(look,))


def _driver_works(scene: Scene, snapshot: Snapshot, because: Any) -> Link:
    content, driver = content_of(scene, snapshot), _driver(scene, snapshot)
    error = _error(snapshot, content)
    if error is not None:
        return _failed(scene, snapshot, error)
    silent = silent_link(scene, "snapshot", "csi-snapshotter", driver)
    is_made = content is not None and content.status is not None and content.status.creation_time is not None
    if is_made:
        text, mover, who = "the storage has it, and is still working on it", Mover.DRIVER, f"the driver {driver}"
    else:
        text, mover, who = "the driver is asked for it", Mover.CLUSTER, f"csi-snapshotter of {driver}, or that driver"
    return silent or Link("snapshot", State.WAITING, text, mover, who, _made_s(snapshot))


def _failed(scene: Scene, snapshot: Snapshot, error: SnapshotError) -> Link:
    driver, message = _driver(scene, snapshot), error.message or ""
    told = diagnosed(
        message, driver=driver, namespace=snapshot.metadata.namespace, program="csi-snapshotter", scene=scene
    )
    text = f"the driver {driver} does not make the snapshot"
    return failed_link("snapshot", told, text, seconds_of(error.time) or _made_s(snapshot), message, BACK_OFF)


def _waits_for_group(scene: Scene, snapshot: Snapshot, because: Any) -> Link:
    owner = next((one.name for one in snapshot.metadata.owner_references or ()), "")
    look = Command(
        f"mooring why group/{owner} -n {snapshot.metadata.namespace}", "reads only: what its group waits for"
    )
    commands = (look,) if owner else ()
    return Link(
        "snapshot", State.WAITING, str(because), Mover.CLUSTER, CONTROLLER, _made_s(snapshot), commands=commands
    )


Advice: TypeAlias = Callable[[Scene, Any, Any], Link]

ADVICE: Final[Mapping[type, Advice]] = {
    why.Ready: _done,
    why.ClassMissing: _class,
    why.NoDefaultClass: _class,
    why.BadSource: _wrong,
    why.ContentMissing: _wrong,
    why.ContentMismatch: _wrong,
    why.ContentMisbound: _wrong,
    why.ContentGoing: _wrong,
    why.CantCreate: _cant_create,
    why.Creating: _not_made,
    why.Binding: _controller_works,
    why.MakingMembers: _controller_works,
    why.GroupContentMissing: _controller_works,
    why.Copying: _driver_works,
    why.MemberUnbound: _waits_for_group,
}
"""One for each reason that the snapshot controller has for a snapshot that lives; a test of the house asks for all."""
