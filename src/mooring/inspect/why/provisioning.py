"""The link of a claim that waits for its provisioner. The provisioner's own judgement is asked; its reason gets advice
here.

Objects that the provisioner looks up are those that were read. Secrets are not: what is wrong with one, an Event says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from mooring.api.binding import is_delayed
from mooring.api.classes import class_of
from mooring.api.core import PERSISTENT_VOLUMES, SECRETS, PersistentVolumeClaim
from mooring.api.gateway import ReferenceGrant
from mooring.api.meta import Key, annotation, key_of
from mooring.api.migration import in_tree_name
from mooring.api.snapshot import VOLUME_SNAPSHOT_CONTENTS, VOLUME_SNAPSHOTS
from mooring.api.storage import VOLUME_ATTRIBUTES_CLASSES
from mooring.base.clock import seconds_of
from mooring.cluster.binder.volumes.reasons import WaitsForProvisioner
from mooring.control.decision import Decision
from mooring.csi.driver_capabilities import DriverCapabilities
from mooring.inspect.scene import Scene, Shelf
from mooring.inspect.why.chain import Command, Link, Mover, State, unseen_link
from mooring.inspect.why.diagnosis import diagnosed, failed_link
from mooring.inspect.why.leaders import leader, silent_link
from mooring.inspect.why.logs import log_command
from mooring.kube.errors import NotFound
from mooring.sidecars.provisioner import names
from mooring.sidecars.provisioner.claims import reasons as why
from mooring.sidecars.provisioner.claims.decide import LookUp, decide_claim
from mooring.sidecars.provisioner.claims.view import Looked, View, Wanted
from mooring.sidecars.provisioner.intents.tracker import ClaimRecords
from mooring.sidecars.provisioner.model.cached import Source, source_of
from mooring.sidecars.provisioner.model.topology import ClusterTopology

QUIET_S: Final = 30.0
"""How long a provisioner may be silent about a claim before that is told."""
TOO_LARGE: Final = ("ResourceExhausted", "OutOfRange")
"""The codes after which a smaller claim may help."""
BACK_OFF: Final = "csi-provisioner tries again by itself, at most five minutes after the last try"
LOOKS_MAX: Final = 8
"""A snapshot, its content, a volume, a class, a secret: so many objects are looked up for one claim at the most."""


def provisioning_link(scene: Scene, step: str, claim: PersistentVolumeClaim, because: WaitsForProvisioner) -> Link:
    """because: the binder's, which names the provisioner that it has asked, or is about to ask."""
    driver = annotation(claim, names.MIGRATED_TO) or because.provisioner
    decision = _decided(scene, claim, driver)
    advice = ADVICE[decision.because.__class__] if decision is not None else _creates
    return advice(scene, step, claim, driver, decision.because if decision is not None else because)


def _decided(scene: Scene, claim: PersistentVolumeClaim, driver: str) -> Decision[Any] | None:
    """The provisioner's next step, with all abilities that no object tells of. None for a source in another namespace,
    whose grants were not read.
    """
    source = source_of(claim)
    if source is not None and source.namespace != claim.metadata.namespace:
        return None
    abilities = DriverCapabilities(driver, in_tree_name(driver) or "", snapshots=True, clones=True, modifies=True)
    grants: Shelf[ReferenceGrant] = Shelf()
    view = View(
        driver=abilities,
        claims=scene.claims,
        volumes=scene.volumes,
        classes=scene.classes,
        nodes=scene.nodes,
        csi_nodes=scene.csi_nodes,
        grants=grants,
        places=ClusterTopology(scene.csi_nodes, scene.nodes),
        intents={},
        records=ClaimRecords(),
    )
    looked = Looked()
    for _ in range(LOOKS_MAX):
        decision = decide_claim(view, claim.metadata.uid, scene.now_s, looked)
        wanted = next((one.wanted for one in decision.actions if isinstance(one, LookUp)), None)
        if wanted is None or scene.is_hidden(wanted.kind, Key(wanted.namespace, wanted.name)):
            return decision
        looked.found[wanted] = _seen(scene, wanted)
    return decision


def _seen(scene: Scene, wanted: Wanted) -> Any:
    """The object as it was read, or the server's answer for one that is not there. Of a Secret nothing."""
    if wanted.kind is SECRETS:
        return {}
    shelves: Mapping[str, Shelf[Any]] = {
        VOLUME_SNAPSHOTS.plural: scene.snapshots,
        VOLUME_SNAPSHOT_CONTENTS.plural: scene.contents,
        VOLUME_ATTRIBUTES_CLASSES.plural: scene.attributes_classes,
        PERSISTENT_VOLUMES.plural: scene.volumes,
    }
    found = shelves[wanted.kind.plural].get(Key(wanted.namespace, wanted.name))
    group = f".{wanted.kind.group}" if wanted.kind.group else ""
    return found or NotFound(f'{wanted.kind.plural}{group} "{wanted.name}" not found')


# -- advice for each reason of the provisioner


def _creates(scene: Scene, step: str, claim: PersistentVolumeClaim, driver: str, because: Any) -> Link:
    failed = next(iter(scene.events(claim, "ProvisioningFailed")), None)
    if failed is not None:
        told = diagnosed(
            failed.message, driver=driver, namespace=claim.metadata.namespace, program="csi-provisioner", scene=scene
        )
        text = f"the driver {driver} does not make the volume"
        if told.code in TOO_LARGE:
            size = (claim.spec.resources.requests or {}).get("storage", "")
            smaller = Command(
                anew(claim, "storage", size, "SIZE"), "safe: the claim has no volume yet, and asks for less"
            )
            told = msgspec.structs.replace(told, commands=(smaller, *told.commands))
        return failed_link(step, told, text, failed.first_s, failed.message, BACK_OFF)
    silent = silent_link(scene, step, "csi-provisioner", driver)
    if silent is not None:
        return silent
    is_begun, held = bool(scene.events(claim, "Provisioning")), leader(scene, "csi-provisioner", driver)
    is_known = scene.drivers.get(Key("", driver)) is not None or held is not None
    if not is_begun and not is_known and scene.age_s(claim) > QUIET_S:
        text = f'nothing in this cluster answers for the provisioner "{driver}": it has no CSIDriver and no Lease'
        who = f"whoever installs the driver {driver}, or corrects the class {class_of(claim)}"
        look = Command("kubectl get csidrivers", "reads only: the drivers that are installed")
        return Link(step, State.FAILED, text, Mover.OPERATOR, who, made_s(claim), commands=(look,))
    who = f"csi-provisioner of {driver}"
    if is_begun or is_delayed(scene.classes.get(Key("", class_of(claim)))) or scene.age_s(claim) <= QUIET_S:
        return Link(step, State.WAITING, str(because), Mover.CLUSTER, who, made_s(claim))
    return Link(
        step,
        State.WAITING,
        f"{because}: it {'renews its Lease, and ' if held is not None else ''}has not said a word about the claim",
        Mover.OPERATOR,
        f"whoever runs {who}",
        made_s(claim),
        commands=(_RIGHTS, log_command(scene, "csi-provisioner", driver)),
    )


def _not_asked(scene: Scene, step: str, claim: PersistentVolumeClaim, driver: str, because: Any) -> Link:
    """The link where the claim's provisioner has failed, is known to be silent, or has begun all the same."""
    link = _creates(scene, step, claim, driver, because)
    is_known = link.state is State.FAILED or scene.events(claim, "Provisioning")
    return link if is_known else _made(scene, step, claim, driver, because)


_RIGHTS: Final = Command("mooring doctor", "reads only: whether its service account has all rights that it needs")


def _hindered(scene: Scene, step: str, claim: PersistentVolumeClaim, driver: str, because: why.Hindered) -> Link:
    """The provisioner finds it out by itself, and asks no driver."""
    source = source_of(claim)
    own = (_about(source),) if source is not None and source.name in because.failure.error else ()
    error = next((one.message for one in scene.events(claim, "ProvisioningFailed")), "")
    commands = own or (
        Command(f"kubectl get storageclass {class_of(claim)} -o yaml", "reads only: the class with its parameters"),
    )
    who = "the owner of the claim, or of its source" if own else "the owner of the claim, or who keeps its class"
    retry = "csi-provisioner tries again when that changes"
    return Link(step, State.FAILED, str(because), Mover.USER, who, made_s(claim), error, retry=retry, commands=commands)


def _about(source: Source) -> Command:
    kind = "vs" if source.is_snapshot else "pvc"
    return Command(
        f"mooring why -n {source.namespace} {kind}/{source.name}", "reads only: what the source of its data waits for"
    )


def _populated(scene: Scene, step: str, claim: PersistentVolumeClaim, driver: str, because: why.Populated) -> Link:
    who = f"the volume populator that knows the kind {because.kind}"
    look = Command("kubectl get volumepopulators", "reads only: the populators that say which kinds they know")
    return Link(step, State.WAITING, str(because), Mover.CLUSTER, who, made_s(claim), commands=(look,))


def _made(scene: Scene, step: str, claim: PersistentVolumeClaim, driver: str, because: Any) -> Link:
    who = "the binder (kube-controller-manager, or mooring binder)"
    return Link(step, State.WAITING, str(because), Mover.CLUSTER, who, made_s(claim))


def _unseen(scene: Scene, step: str, claim: PersistentVolumeClaim, driver: str, because: Any) -> Link:
    """The link for an object that the provisioner looks up, and whoever asks may not see: an Event may tell."""
    if scene.events(claim, "ProvisioningFailed"):
        return _creates(scene, step, claim, driver, because)
    return unseen_link(step, f"{because}, and it could not be seen")


def _scheduled(scene: Scene, step: str, claim: PersistentVolumeClaim, driver: str, because: Any) -> Link:
    return Link(step, State.WAITING, str(because), Mover.CLUSTER, "the scheduler", made_s(claim))


def _other_class(scene: Scene, step: str, claim: PersistentVolumeClaim, driver: str, because: Any) -> Link:
    """The class was made anew since the provisioner was asked."""
    look = Command(f"kubectl get storageclass {class_of(claim)} -o yaml", "reads only: whose class it is by now")
    return Link(step, State.FAILED, str(because), Mover.USER, "the owner of the claim", made_s(claim), commands=(look,))


def anew(claim: PersistentVolumeClaim, field: str, has: str, gets: str) -> str:
    """A command that makes a claim without a volume anew, with another text in one field of its specification."""
    key = key_of(claim)
    return (
        f'kubectl -n {key.namespace} get pvc {key.name} -o json | sed \'s/"{field}": "{has}"/"{field}": "{gets}"/\' '
        "| kubectl replace --force -f -"
    )


def made_s(claim: PersistentVolumeClaim) -> float:
    return seconds_of(claim.metadata.creation_timestamp)


Advice = Callable[[Scene, str, PersistentVolumeClaim, str, Any], Link]

ADVICE: Final[Mapping[type, Advice]] = {
    why.Gone: _creates,
    why.HasVolume: _made,
    why.NotAsked: _not_asked,
    why.ClassMissing: _other_class,
    why.ClassOfAnother: _other_class,
    why.WaitsForNode: _scheduled,
    why.OfAnotherNode: _creates,
    why.Provisioned: _made,
    why.Saving: _creates,
    why.NotStorable: _creates,
    why.NotYetAgain: _creates,
    why.NotRuledOut: _creates,
    why.Populated: _populated,
    why.LookingUp: _unseen,
    why.Creating: _creates,
    why.CleaningUp: _creates,
    why.PutOff: _creates,
    why.Ended: _creates,
    why.Hindered: _hindered,
}
"""One for each reason that the provisioner has for a claim; a test of the house asks for all."""
