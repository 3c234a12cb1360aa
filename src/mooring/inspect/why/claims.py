"""The link of a claim: bound, or what keeps it from its volume. The binder's own judgement is asked; its reason gets
advice here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from mooring.api.classes import class_of
from mooring.api.core import PERSISTENT_VOLUME_CLAIMS, PersistentVolumeClaim
from mooring.api.meta import Key, annotation, is_deleting, key_of
from mooring.api.migration import MIGRATED_TO
from mooring.api.storage import STORAGE_CLASSES
from mooring.cluster.binder.available_volumes import AvailableVolumes
from mooring.cluster.binder.view import BY_CLAIM, View, Volumes, is_default
from mooring.cluster.binder.volumes import reasons as why
from mooring.cluster.binder.volumes.decide import decide_claim
from mooring.cluster.binder.volumes.decision import Absent
from mooring.inspect.scene import Scene
from mooring.inspect.why.chain import Command, Link, Mover, State, unseen_link
from mooring.inspect.why.provisioning import anew, made_s, provisioning_link


def claim_link(scene: Scene, key: Key) -> Link:
    """The link of one claim."""
    step, claim = f"claim {key.name}", scene.claims.get(key)
    if claim is None:
        return _missing(scene, step, key)
    if claim.status.phase == "Bound" and claim.spec.volume_name:
        size = (claim.status.capacity or {}).get("storage", "")
        return Link(step, State.DONE, f"bound to {claim.spec.volume_name}" + (f" ({size})" if size else ""))
    if is_deleting(claim):
        return Link(step, State.FAILED, "it is being deleted and is not bound", Mover.USER, "the owner of the claim")
    class_name = class_of(claim)
    if class_name and scene.is_hidden(STORAGE_CLASSES, Key("", class_name)):
        return unseen_link(step, f'its StorageClass "{class_name}" could not be seen')
    view = View(scene.claims, Volumes(scene.volumes, AvailableVolumes()), scene.classes, scene.pods)
    decision = decide_claim(view, key, Absent(class_name=class_name, pv_name=claim.spec.volume_name))
    return ADVICE[decision.because.__class__](scene, step, claim, decision.because)


def _missing(scene: Scene, step: str, key: Key) -> Link:
    if scene.is_hidden(PERSISTENT_VOLUME_CLAIMS, key):
        return unseen_link(step, "could not be seen")
    look = Command(f"kubectl -n {key.namespace} get pvc", "reads only: the claims that are there")
    return Link(
        step, State.FAILED, f'the claim "{key}" does not exist', Mover.USER, "the owner of the pod", commands=(look,)
    )


# -- advice for each reason of the binder


def _done(scene: Scene, step: str, claim: PersistentVolumeClaim, because: why.Bound) -> Link:
    return Link(step, State.DONE, str(because))


def _goes_on(scene: Scene, step: str, claim: PersistentVolumeClaim, because: Any) -> Link:
    who = "the binder (kube-controller-manager, or mooring binder)"
    return Link(step, State.WAITING, str(because), Mover.CLUSTER, who, made_s(claim))


def _waits_for_pod(scene: Scene, step: str, claim: PersistentVolumeClaim, because: why.WaitsForFirstConsumer) -> Link:
    if because.pods:
        return Link(step, State.WAITING, str(because), Mover.CLUSTER, "the scheduler", made_s(claim))
    pinned = next((one for one in scene.pods.by(BY_CLAIM, str(key_of(claim))) if one.spec.node_name), None)
    if pinned is not None:
        text = f'the pod "{pinned.metadata.name}" uses it, and was put on its node past the scheduler'
        look = Command(
            f"mooring why -n {pinned.metadata.namespace} pod/{pinned.metadata.name}", "reads only: what to do about it"
        )
        return Link(step, State.WAITING, text, Mover.USER, "the owner of the pod", made_s(claim), commands=(look,))
    text = f'no pod uses it: its class "{class_of(claim)}" makes the volume for the first pod that does'
    return Link(step, State.WAITING, text, Mover.USER, "whoever creates a pod with this claim", made_s(claim))


def _class_missing(scene: Scene, step: str, claim: PersistentVolumeClaim, because: why.ClassMissing) -> Link:
    line = anew(claim, "storageClassName", because.class_name, _best_class(scene) or "CLASS")
    return Link(
        step,
        State.FAILED,
        f'its StorageClass "{because.class_name}" does not exist',
        Mover.USER,
        "the owner of the claim",
        made_s(claim),
        retry="goes on by itself when the class is created",
        commands=(Command(line, "safe: the claim has no volume yet, and is made anew with another class"), _CLASSES),
    )


_CLASSES: Final = Command("kubectl get storageclasses", "reads only: the classes that are there")


def _best_class(scene: Scene) -> str:
    """The default class, else the first by name; "" for none."""
    return min(((not is_default(one), one.metadata.name) for one in scene.classes.values()), default=(True, ""))[1]


def _by_hand(scene: Scene, step: str, claim: PersistentVolumeClaim, because: Any) -> Link:
    look = Command("kubectl get pv", "reads only: the volumes that are there")
    return Link(
        step, State.FAILED, str(because), Mover.USER, "the owner of the claim", made_s(claim), commands=(_CLASSES, look)
    )


def _in_tree(scene: Scene, step: str, claim: PersistentVolumeClaim, because: why.NoSuchPlugin) -> Link:
    """kube-controller-manager hands the claim over to the CSI driver that took over from the plug-in, and notes that on
    it.
    """
    driver = annotation(claim, MIGRATED_TO)
    if driver:
        return provisioning_link(scene, step, claim, why.WaitsForProvisioner(driver))
    return _by_hand(scene, step, claim, because)


def _no_default(scene: Scene, step: str, claim: PersistentVolumeClaim, because: Any) -> Link:
    best = _best_class(scene)
    if claim.spec.storage_class_name is not None or not best:
        return _by_hand(scene, step, claim, because)
    line = f"kubectl annotate storageclass {best} storageclass.kubernetes.io/is-default-class=true"
    mark = Command(line, "safe: claims that name no class get this one, those that wait for one, too")
    text = "it names no StorageClass, no class is the default, and no free volume fits"
    return Link(
        step,
        State.FAILED,
        text,
        Mover.USER,
        "the owner of the claim, or who keeps the classes",
        made_s(claim),
        commands=(mark, _CLASSES),
    )


def _named_volume(scene: Scene, step: str, claim: PersistentVolumeClaim, because: Any) -> Link:
    return Link(
        step,
        State.FAILED,
        str(because),
        Mover.USER,
        "the owner of the claim",
        made_s(claim),
        commands=(
            Command(f"kubectl get pv {claim.spec.volume_name} -o yaml", "reads only: what the volume is, and whose"),
        ),
    )


def _lost(scene: Scene, step: str, claim: PersistentVolumeClaim, because: Any) -> Link:
    return Link(
        step,
        State.FAILED,
        f"{because}: the data of this claim can't be reached through it any more",
        Mover.OPERATOR,
        "whoever can bring the volume back",
        commands=(Command("mooring orphans", "reads only: finds volumes on the storage that no object names"),),
    )


Advice = Callable[[Scene, str, PersistentVolumeClaim, Any], Link]

ADVICE: Final[Mapping[type, Advice]] = {
    why.Bound: _done,
    why.Binding: _goes_on,
    why.GetsDefaultClass: _goes_on,
    why.LooksForClass: _goes_on,
    why.LooksForVolume: _goes_on,
    why.WaitsForFirstConsumer: _waits_for_pod,
    why.WaitsForProvisioner: provisioning_link,
    why.ClassMissing: _class_missing,
    why.NothingFits: _no_default,
    why.NoSuchPlugin: _in_tree,
    why.VolumeMissing: _named_volume,
    why.VolumeUnsuited: _named_volume,
    why.VolumeTaken: _named_volume,
    why.ClaimLost: _lost,
    why.ClaimMisbound: _lost,
}
"""One for each reason that the binder has for a claim; a test of the house asks for all."""
