"""Decides when a volume is deleted, and when its finalizer is added and removed. Pure."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Final, TypeAlias

import msgspec

from mooring.api.class_migration import class_as_csi
from mooring.api.classes import volume_class_of
from mooring.api.core import PersistentVolume, SecretReference
from mooring.api.meta import Key, annotation, finalizers_of, is_deleting
from mooring.api.migration import TranslationError, is_migratable, translated
from mooring.api.storage import VolumeAttachment
from mooring.control.decision import Decision, Destroys
from mooring.control.result import Problem
from mooring.control.topics import Topic
from mooring.kube.cache.reader import Reader
from mooring.sidecars.provisioner import names
from mooring.sidecars.provisioner.deletion import reasons as why
from mooring.sidecars.provisioner.model.cached import BY_VOLUME, CacheView, is_done_with, is_provisioned_by
from mooring.sidecars.provisioner.model.topics import INTENT_CLOSED
from mooring.sidecars.provisioner.model.volumes import ParameterError, SecretKind, TemplateValues, secret_of

BOUND: Final = "Bound"
RELEASED: Final = "Released"
DELETE: Final = "Delete"

_NO_SERVICE: Final = (
    "CSI driver does not support dynamic provisioning: plugin CONTROLLER_SERVICE capability is not reported"
)
_NO_RPC: Final = (
    "CSI driver does not support dynamic provisioning: controller CREATE_DELETE_VOLUME capability is not reported"
)


# -- topics that a volume waits for while it can't be deleted


def detached(pv_name: str) -> Topic:
    """An attachment of the volume is gone."""
    return f"detached/{pv_name}"


def object_changed(pv_name: str) -> Topic:
    """The PersistentVolume, or another one of the same volume, has changed, or is gone."""
    return f"object/{pv_name}"


def handle_stored(handle: str) -> Topic:
    """No PersistentVolume of the volume is being stored any more."""
    return f"handle/{handle}"


def class_changed(class_name: str) -> Topic:
    return f"class/{class_name}"


def intent_closed(pv_name: str) -> Topic:
    """The intent of the volume is closed: it no longer keeps the volume from being deleted."""
    return f"{INTENT_CLOSED}/{pv_name}"


# -- the view


class Progress(msgspec.Struct, frozen=True):
    """The progress of a deletion that the cache may not show yet: the backend's volume is gone."""

    #: The PersistentVolume's.
    uid: str
    #: The deletion of the PersistentVolume has been requested, too.
    object_deleted: bool = False


class View(CacheView, frozen=True, kw_only=True):
    """The caches and the progress, live."""

    #: None for drivers that don't publish.
    attachments: Reader[VolumeAttachment] | None = None
    progress: Mapping[str, Progress] = msgspec.field(default_factory=dict)
    #: `Environment.storing`.
    storing: Mapping[str, AbstractSet[str]] = msgspec.field(default_factory=dict)

    def progress_of(self, pv: PersistentVolume) -> Progress | None:
        known = self.progress.get(pv.metadata.name)
        return known if known is not None and known.uid == pv.metadata.uid else None

    def nodes_of(self, pv: PersistentVolume) -> tuple[str, ...]:
        """The nodes that attachments of it name, in whatever state: unknown counts as attached."""
        if self.attachments is None:
            return ()
        return tuple(sorted({one.spec.node_name for one in self.attachments.by(BY_VOLUME, pv.metadata.name)}))

    def keeper_of(self, pv: PersistentVolume, handle: str) -> str:
        """Another PersistentVolume of its volume that is in use, attached, or kept, the first by name; "" where all are
        to be deleted with their volume.
        """
        found = (self.volume(name) for name in self.others_naming(handle, pv.metadata.name))
        others = (one for one in found if one is not None and not (is_done_with(one) and not self.nodes_of(one)))
        return min((one.metadata.name for one in others), default="")


def holds(pv: PersistentVolume) -> bool:
    """True when the finalizer is on it."""
    return names.VOLUME_FINALIZER in finalizers_of(pv)


# -- the decision


class Hold(msgspec.Struct, frozen=True):
    """Add the finalizer, so that its volume is deleted before the object."""


class Release(msgspec.Struct, frozen=True):
    """Remove the finalizer."""


class LoadSecret(msgspec.Struct, frozen=True):
    """Fetch the Secret that the call needs; without it the call is made all the same."""

    ref: SecretReference


class DeleteVolume(Destroys, msgspec.Struct, frozen=True):
    """Call DeleteVolume."""

    handle: str
    #: The volume is an in-tree one.
    migrated: bool = False
    #: The name of a class that is gone, and may name a secret.
    lacks_class: str = ""


class LeaveVolume(msgspec.Struct, frozen=True):
    """The volume stays, since another PersistentVolume names it. One is enough: there may be thousands, which come and
    go.
    """

    keeper: str


class DeleteObject(msgspec.Struct, frozen=True):
    """Ask for the PersistentVolume's deletion."""


class Obstacle(enum.Enum):
    """The thing that keeps a volume from being deleted."""

    TRANSLATION = "its in-tree source can't be translated"
    SOURCE = "its source is not a CSI driver's"
    DRIVER = "the driver can't delete volumes"
    SECRET = "the secret for the call can't be named"
    CLASS = "its in-tree class can't be translated"
    ATTACHED = "it is attached"
    STORING = "it is being stored for another claim"


class TellObstacle(msgspec.Struct, frozen=True):
    """Tell users of the problem: of another obstacle at once, and of the same one seldom, whatever the problem's
    text.
    """

    obstacle: Obstacle


Action: TypeAlias = Hold | Release | LoadSecret | DeleteVolume | LeaveVolume | DeleteObject | TellObstacle


def decide_deletion(view: View, pv_name: str) -> Decision[Action]:
    """The next step for one PersistentVolume."""
    pv = view.volume(pv_name)
    if pv is None:
        return Decision(why.Gone(pv_name))
    if not is_provisioned_by(view.driver, pv):
        return Decision(why.Foreign(view.driver.name))
    if is_deleting(pv) and not holds(pv):
        return Decision(why.WithoutFinalizer())
    if view.progress_of(pv) is not None:  # whatever its policy is by now: there is no volume any more
        return Decision(why.Deleted(), _after_the_volume(view, pv))
    policy = pv.spec.persistent_volume_reclaim_policy
    if policy != DELETE:
        return Decision(why.Kept(policy), (Release(),) if holds(pv) else ())
    if not view.is_here(pv):
        return Decision(why.Elsewhere(view.node_name))
    phase = pv.status.phase
    if phase != RELEASED:
        lacks_finalizer = phase == BOUND and not holds(pv) and not is_deleting(pv)
        return Decision(why.InUse(phase), (Hold(),) if lacks_finalizer else ())
    return _delete(view, pv)


def _delete(view: View, pv: PersistentVolume) -> Decision[Action]:
    migrated = is_migratable(pv.spec)
    try:
        source = translated(pv).csi if migrated else pv.spec.csi
    except TranslationError as error:
        return _stuck(pv, Obstacle.TRANSLATION, why.Untranslatable(str(error)))
    if source is None:
        return _stuck(pv, Obstacle.SOURCE, why.NotCSI())
    if not view.driver.creates or not view.driver.has_controller:
        return _stuck(pv, Obstacle.DRIVER, why.NoCapability(_NO_RPC if view.driver.has_controller else _NO_SERVICE))
    try:
        secret = secret_for(view, pv, migrated=migrated)
    except ParameterError as error:
        return _stuck(
            pv, Obstacle.SECRET, why.NoSecret(pv.metadata.name, str(error)), class_changed(volume_class_of(pv))
        )
    except TranslationError as error:
        return _stuck(pv, Obstacle.CLASS, why.UntranslatableClass(str(error)), class_changed(volume_class_of(pv)))
    node_names = view.nodes_of(pv)
    if node_names:
        return _stuck(
            pv, Obstacle.ATTACHED, why.StillAttached(pv.metadata.name, node_names), detached(pv.metadata.name)
        )
    if keeper := view.keeper_of(pv, source.volume_handle):
        return Decision(why.LeftToAnother(keeper), (LeaveVolume(keeper), *_after_the_volume(view, pv)))
    if view.storing.get(source.volume_handle):
        stored = handle_stored(source.volume_handle)
        return _stuck(pv, Obstacle.STORING, why.BeingStored(source.volume_handle), stored)
    load: tuple[Action, ...] = () if secret is None else (LoadSecret(secret),)
    call = DeleteVolume(source.volume_handle, migrated, _missing_class(view, pv))
    return Decision(why.Deleting(call.handle), (*load, call, *_after_the_volume(view, pv)))


def _stuck(pv: PersistentVolume, obstacle: Obstacle, problem: Problem, *waits_for: Topic) -> Decision[Action]:
    """The decision on a volume that can't be deleted; it waits for its own object to change, too."""
    return Decision(
        problem, (TellObstacle(obstacle),), problem, waits_for=frozenset({object_changed(pv.metadata.name), *waits_for})
    )


def _after_the_volume(view: View, pv: PersistentVolume) -> tuple[Action, ...]:
    """The object is deleted: requested once, and no longer held by the finalizer."""
    progress = view.progress_of(pv)
    is_asked_for = is_deleting(pv) or (progress is not None and progress.object_deleted)
    return (*(() if is_asked_for else (DeleteObject(),)), *((Release(),) if holds(pv) else ()))


def _notes_secret(pv: PersistentVolume) -> bool:
    """True where the provisioner noted the secret, or that there is none."""
    notes = pv.metadata.annotations or {}
    return names.DELETION_SECRET_NAME in notes and names.DELETION_SECRET_NAMESPACE in notes


def _missing_class(view: View, pv: PersistentVolume) -> str:
    """The class that would have to say whether there is a secret, "" where it is there, or need not. What nobody
    provisioned needs none.
    """
    class_name = volume_class_of(pv)
    knows = _notes_secret(pv) or names.PROVISIONED_BY not in (pv.metadata.annotations or {})
    return "" if knows or view.classes.get(Key("", class_name)) is not None else class_name


def secret_for(view: CacheView, pv: PersistentVolume, *, migrated: bool) -> SecretReference | None:
    """The Secret for DeleteVolume, as the provisioner noted it; for a volume without a note as its class says. Raises
    ParameterError, TranslationError.
    """
    if _notes_secret(pv):
        name, namespace = annotation(pv, names.DELETION_SECRET_NAME), annotation(pv, names.DELETION_SECRET_NAMESPACE)
        return SecretReference(name=name, namespace=namespace) if name and namespace else None
    storage_class = view.classes.get(Key("", volume_class_of(pv)))
    claim = pv.spec.claim_ref
    if storage_class is None or claim is None:
        return None
    if migrated and storage_class.provisioner == view.driver.in_tree_name:
        storage_class = class_as_csi(storage_class)
    values = TemplateValues(pv_name=pv.metadata.name, claim_namespace=claim.namespace, claim_name=claim.name)
    return secret_of(SecretKind.PROVISIONER, storage_class.parameters or {}, values)
