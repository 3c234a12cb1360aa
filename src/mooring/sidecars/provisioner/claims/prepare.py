"""From a claim and its class to a complete order for a volume, or to a failure. Pure.

The checks are external-provisioner's, in its order, and so are the texts. Differs from it in one thing: a source is
held only after all of them, so that an attempt which can't succeed leaves no finalizer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from mooring.api.class_migration import class_as_csi
from mooring.api.classes import class_of
from mooring.api.core import SECRETS, PersistentVolumeClaim, SecretReference
from mooring.api.migration import TranslationError
from mooring.api.names import dns_subdomain
from mooring.api.snapshot import GROUP as SNAPSHOT_GROUP
from mooring.api.storage import VOLUME_ATTRIBUTES_CLASSES, StorageClass, VolumeAttributesClass
from mooring.base.text import shortened
from mooring.control.secrets import SecretError
from mooring.control.topics import Topic
from mooring.csi.proto import csi_pb2 as csi
from mooring.kube.errors import ApiError
from mooring.sidecars.provisioner.claims.sources import SourceError, clone_handle, granted, snapshot_handle
from mooring.sidecars.provisioner.claims.view import Looked, View, Wanted, requirements, requirements_again
from mooring.sidecars.provisioner.model import orders, topics, volumes
from mooring.sidecars.provisioner.model.cached import Source, requested_bytes, selected_node, source_of
from mooring.sidecars.provisioner.model.intent import Intent
from mooring.sidecars.provisioner.model.orders import Order, RequestError
from mooring.sidecars.provisioner.model.outcomes import AttemptFailed, Failure, State
from mooring.sidecars.provisioner.model.topology import NodeMissing, NodeUnknown, Requirements, TopologyError
from mooring.sidecars.provisioner.model.volumes import ParameterError, SecretKind, TemplateValues

_PREFIX_FOR_METADATA = volumes.PREFIX
NAME_BYTES_SHOWN: Final = 80


class LeftToPopulator(Exception):
    """The claim's source is of a kind that a volume populator knows."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.kind = kind


def finished(error: str, *heals: Topic) -> AttemptFailed:
    return AttemptFailed(Failure(error, State.FINISHED, heals=frozenset(heals)))


def unchanged(error: str, *heals: Topic) -> AttemptFailed:
    return AttemptFailed(Failure(error, State.NO_CHANGE, heals=frozenset(heals)))


def volume_name(view: View, uid: str) -> str:
    """The name of the claim's volume, for the driver and as an object. Raises AttemptFailed."""
    prefix, length = view.rules.volume_name_prefix, view.rules.volume_name_uuid_length
    if not prefix:
        raise finished("volume name prefix cannot be of length 0")
    if not uid:
        raise finished("corrupted PVC object, it is missing UID")
    name = f"{prefix}-{uid}" if length == -1 else f"{prefix}-{uid.replace('-', '')[:length]}"
    problems = dns_subdomain(name)
    if problems:  # the API server would refuse the object, after the volume was made
        shown = shortened(name, NAME_BYTES_SHOWN)
        raise finished(
            f'volume-name-prefix leads to "{shown}", which can\'t be the name of a PersistentVolume: '
            f"{'; '.join(problems)}"
        )
    return name


def prepared(view: View, claim: PersistentVolumeClaim, storage_class: StorageClass, looked: Looked) -> Order:
    """The order. Raises AttemptFailed, LeftToPopulator, NotLookedUp."""
    source = _source(view, claim)
    if source is not None:
        _check_kind(claim, source)
    translated = _translated(view, storage_class)
    attributes_class = (claim.spec.volume_attributes_class_name or "") if view.rules.volume_attributes_class else ""
    _check_abilities(view, source, attributes_class)
    if claim.spec.selector is not None:
        raise finished("claim Selector is not supported")
    name = volume_name(view, claim.metadata.uid)
    given = translated.parameters or {}
    try:
        fs_type = volumes.fs_type(given, view.rules.default_fstype)
        wanted = orders.capabilities(claim, fs_type, translated.mount_options, view.driver.single_node_multi_writer)
    except (ParameterError, RequestError) as error:
        raise finished(str(error)) from error
    content = None if source is None else _content(view, claim, translated, source, looked)
    where = _where(view, claim, translated)
    secrets = _secrets(claim, name, given, looked)
    for_driver = _for_driver(view, claim, name, given)
    request = csi.CreateVolumeRequest(
        name=name,
        capacity_range=csi.CapacityRange(required_bytes=_size(claim)),
        volume_capabilities=wanted,
        parameters=for_driver,
        volume_content_source=content,
        mutable_parameters=_mutable(view, attributes_class, looked),
    )
    volume = volumes.begun(
        name,
        claim,
        class_of(claim),
        storage_class,
        secrets,
        driver_name=view.driver.name,
        fs_type="" if claim.spec.volume_mode == "Block" else fs_type,
        read_only=view.rules.controller_publish_readonly and orders.is_read_only(wanted),
        attributes_class=attributes_class,
    )
    intent = Intent(
        uid=claim.metadata.uid,
        namespace=claim.metadata.namespace,
        claim_name=claim.metadata.name,
        volume_name=name,
        request=orders.request_text(request, where),
        volume=volumes.text_of(volume),
        secret=secrets[SecretKind.PROVISIONER],
        node_name=selected_node(claim) if view.uses_topology else "",
        migrated=storage_class.provisioner == view.driver.in_tree_name,
        class_name=class_of(claim),
        source_kind=source_kind(claim),
        source=source,
        places_omitted=not orders.is_stored_whole(where),
    )
    return Order(intent, request, where, source)


def prepared_again(view: View, intent: Intent) -> Order:
    """The order of an open intent, as it was. Raises AttemptFailed."""
    try:
        request, where = orders.stored_request(intent)
    except RequestError as error:
        raise unchanged(str(error)) from error
    if where is not None and intent.places_omitted:
        storage_class = view.storage_class(intent.class_name)
        if storage_class is not None:
            storage_class = _translated(view, storage_class)
        where = requirements_again(view, storage_class, where.first)
    return Order(intent, request, where, intent.source)


def source_kind(claim: PersistentVolumeClaim) -> str:
    """The kind of the claim's `dataSource`, a label of the metrics; "" without."""
    return claim.spec.data_source.kind if claim.spec.data_source else ""


# -- the steps, in order


def _source(view: View, claim: PersistentVolumeClaim) -> Source | None:
    source = source_of(claim)
    ref = claim.spec.data_source_ref
    if ref is not None and ref.namespace and not view.rules.cross_namespace_data_source:
        raise finished("dataSourceRef namespace specified but the CrossNamespaceVolumeDataSource feature is disabled")
    if source is None:
        return None
    namespace, name = claim.metadata.namespace, claim.metadata.name
    if source.namespace != namespace and not granted(view, claim, source):
        why = (
            f"accessing {source.namespace}/{source.name} of {source.kind} dataSource from {namespace}/{name} isn't "
            "allowed"
        )
        raise finished(why, topics.grants(source.namespace))
    return source


def _check_kind(claim: PersistentVolumeClaim, source: Source) -> None:
    if not source.name:
        raise finished(f"the PVC source not found for PVC {claim.metadata.name}")
    if source.is_snapshot and source.group != SNAPSHOT_GROUP:
        raise finished(
            f"the PVC source does not belong to the right APIGroup. Expected {SNAPSHOT_GROUP}, Got {source.group}"
        )
    if not source.is_snapshot and not source.is_claim:
        raise LeftToPopulator(source.kind)


def _translated(view: View, storage_class: StorageClass) -> StorageClass:
    """The class as the CSI driver understands it; the same object when it is no in-tree one."""
    if storage_class.provisioner != view.driver.in_tree_name:
        return storage_class
    try:
        return class_as_csi(storage_class)
    except TranslationError as error:
        raise finished(f"failed to translate storage class: {error}") from error


def _check_abilities(view: View, source: Source | None, attributes_class: str) -> None:
    driver = view.driver
    for is_able, what, ability in (
        (driver.has_controller, "dynamic provisioning", "plugin CONTROLLER_SERVICE"),
        (driver.creates, "dynamic provisioning", "controller CREATE_DELETE_VOLUME"),
        (
            driver.snapshots or not (source and source.is_snapshot),
            "snapshot restore",
            "controller CREATE_DELETE_SNAPSHOT",
        ),
        (driver.clones or not (source and source.is_claim), "clone operations", "controller CLONE_VOLUME"),
        (driver.modifies or not attributes_class, "VolumeAttributesClass", "controller MODIFY_VOLUME"),
    ):
        if not is_able:
            raise finished(f"CSI driver does not support {what}: {ability} capability is not reported")


def _size(claim: PersistentVolumeClaim) -> int:
    size = requested_bytes(claim)
    if not 0 <= size < 2**63:
        raise finished(f"a volume of {size} bytes can't be asked for")
    return size


def _content(
    view: View, claim: PersistentVolumeClaim, storage_class: StorageClass, source: Source, looked: Looked
) -> csi.VolumeContentSource:
    handle_of = snapshot_handle if source.is_snapshot else clone_handle
    topic_of = topics.snapshot if source.is_snapshot else topics.claim
    try:
        return orders.content_source(source, handle_of(view, claim, storage_class, source, looked))
    except SourceError as error:
        why = f"error getting handle for DataSource Type {source.kind} by Name {source.name}: {error}"
        raise unchanged(why, topic_of(f"{source.namespace}/{source.name}")) from error


def _where(view: View, claim: PersistentVolumeClaim, storage_class: StorageClass) -> Requirements | None:
    if not view.uses_topology:
        return None
    try:
        return requirements(view, claim, storage_class)
    except TopologyError as error:
        state = State.RESCHEDULE if isinstance(error, NodeUnknown) else State.NO_CHANGE
        why = str(error) if isinstance(error, NodeMissing) else f"error generating accessibility requirements: {error}"
        raise AttemptFailed(Failure(why, state, heals=frozenset({topics.NODES}))) from error


def _secrets(
    claim: PersistentVolumeClaim, name: str, given: Mapping[str, str], looked: Looked
) -> dict[SecretKind, SecretReference | None]:
    """All secrets that the class names. The provisioner's own is read at once, too, so that nothing is begun without
    it.
    """
    meta = claim.metadata
    values = TemplateValues(name, meta.namespace, meta.name, meta.annotations or {})
    found: dict[SecretKind, SecretReference | None] = {}
    for kind in SecretKind:
        if kind is SecretKind.DEFAULT:
            continue
        try:
            found[kind] = volumes.secret_of(kind, given, values)
        except ParameterError as error:
            raise unchanged(str(error)) from error
        if kind is SecretKind.PROVISIONER:
            secret_values(found[kind], looked)
    return found


def secret_values(ref: SecretReference | None, looked: Looked) -> Mapping[str, str]:
    """The provisioner's secret. Raises AttemptFailed, NotLookedUp."""
    if ref is None:
        return {}
    try:
        values: Mapping[str, str] = looked.get(Wanted(SECRETS, ref.name, ref.namespace))
    except (ApiError, SecretError) as error:
        raise unchanged(f"error getting secret {ref.name} in namespace {ref.namespace}: {error}") from error
    return values


def _for_driver(view: View, claim: PersistentVolumeClaim, name: str, given: Mapping[str, str]) -> dict[str, str]:
    try:
        passed = volumes.for_driver(given)
    except ParameterError as error:
        raise finished(str(error)) from error
    if view.rules.extra_create_metadata:
        passed[f"{_PREFIX_FOR_METADATA}pvc/name"] = claim.metadata.name
        passed[f"{_PREFIX_FOR_METADATA}pvc/namespace"] = claim.metadata.namespace
        passed[f"{_PREFIX_FOR_METADATA}pv/name"] = name
    return passed


def _mutable(view: View, attributes_class: str, looked: Looked) -> Mapping[str, str] | None:
    if not attributes_class:
        return None
    try:
        found: VolumeAttributesClass = looked.get(Wanted(VOLUME_ATTRIBUTES_CLASSES, attributes_class))
    except ApiError as error:
        raise unchanged(str(error)) from error
    if found.driver_name != view.driver.name:
        raise finished(
            f"VAC {attributes_class} referenced in PVC is for driver {found.driver_name} "
            f"which does not match driver name {view.driver.name}"
        )
    return found.parameters or {}
