"""The volumes of a pod: exactly one source each, and a valid one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Final

from mooring.api import names
from mooring.api.quantity import parse_quantity
from mooring.apiserver import field_errors, metadata
from mooring.apiserver.field_errors import FieldCause
from mooring.apiserver.resource import Json
from mooring.apiserver.rules import checks, claimspec, podfields, volumesources
from mooring.apiserver.rules.podshape import MESSAGES

SOURCES: Final = tuple(MESSAGES["VolumeSource"].fields)
_ORDER: Final = (
    "emptyDir",
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "flocker",
    "persistentVolumeClaim",
    "rbd",
    "cinder",
    "cephfs",
    "quobyte",
    "downwardAPI",
    "fc",
    "flexVolume",
    "configMap",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "storageos",
    "projected",
    "scaleIO",
    "csi",
    "ephemeral",
    "image",
)
"""If there are two sources, the later one is the wrong one."""
assert sorted(_ORDER) == sorted(SOURCES)

_RENAMED: Final = {"gcePersistentDisk": "persistentDisk"}
_PARTS_255: Final = ("gcePersistentDisk", "awsElasticBlockStore")
PULL_POLICIES: Final = ("Always", "IfNotPresent", "Never")
_MODE: Final = "must be a number between 0 and 0777 (octal), both inclusive"
_CLAIM_METADATA: Final = (
    "name",
    "generateName",
    "namespace",
    "selfLink",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "ownerReferences",
    "finalizers",
    "managedFields",
)
_ALSO_CALLED: Final = {**volumesources.ALSO_CALLED, "downwardAPI": "downwarAPI"}
"""As the real one spells them where they are one source too many."""
_ISCSI_NAME_MAX: Final = 64
_GATED: Final = ("clusterTrustBundle", "podCertificate")


def examine(spec: Json, pod_name: str | None) -> tuple[list[FieldCause], dict[str, Json]]:
    """Everything wrong with the volumes, and by their names those with which nothing is. pod_name: None for a
    template.
    """
    volumes, found, sound = spec.get("volumes") or [], list[FieldCause](), dict[str, Json]()
    made = {f"{pod_name}-{volume['name']}" for volume in volumes if "ephemeral" in volume} if pod_name else set()
    for field, volume in checks.each(volumes, "spec.volumes"):
        name, claim = volume["name"], volume.get("persistentVolumeClaim")
        wrong = [
            *_validate_source(volume, field, pod_name),
            *field_errors.required_name(name, f"{field}.name", names.dns_label),
        ]
        if name in sound:
            wrong.append(field_errors.duplicate(f"{field}.name", name))
        if not wrong:
            sound[name] = volume
        found += wrong
        if claim is not None and claim["claimName"] in made:
            text = "must not reference a PVC that gets created for an ephemeral volume"
            found.append(field_errors.invalid(f"{field}.persistentVolumeClaim.claimName", claim["claimName"], text))
    return found, sound


def relative_path(path: str, field: str) -> list[FieldCause]:
    """The errors of a path that is absolute or has a '..'."""
    found = [field_errors.invalid(field, path, "must be a relative path")] if path.startswith("/") else []
    return found + ([field_errors.invalid(field, path, "must not contain '..'")] if ".." in path.split("/") else [])


def _validate_source(volume: Json, field: str, pod_name: str | None) -> Iterator[FieldCause]:
    given = [source for source in _ORDER if source in volume]
    source, others = given[0], given[1:]
    check = _CHECKS.get(source)
    if check is not None:
        yield from check(volume[source], f"{field}.{source}")
    else:
        yield from _validate_plain(source, volume[source], f"{field}.{_RENAMED.get(source, source)}")
    if source == "ephemeral" and pod_name:
        yield from _validate_claim_name(pod_name, volume["name"], f"{field}.name")
    if source == "image" and pod_name is not None and not volume["image"].get("reference"):
        yield field_errors.required(f"{field}.image.reference")
    if "iscsi" in volume:
        yield from _validate_iscsi(volume["iscsi"], volume["name"], f"{field}.name")
    for other in others:
        yield field_errors.forbidden(
            f"{field}.{_ALSO_CALLED.get(other, other)}", "may not specify more than 1 volume type"
        )


def _validate_claim_name(pod_name: str, name: str, field: str) -> Iterator[FieldCause]:
    """The claim that an ephemeral volume is going to have."""
    for reason in names.dns_subdomain(f"{pod_name}-{name}") if name else ():
        yield field_errors.invalid(field, name, f'PVC name "{pod_name}-{name}": {reason}')


def _validate_iscsi(content: Json, name: str, field: str) -> Iterator[FieldCause]:
    if "initiatorName" in content and len(f"{name}:{content['targetPortal']}".encode()) > _ISCSI_NAME_MAX:
        text = f"Total length of <volume name>:<iscsi.targetPortal> must be under {_ISCSI_NAME_MAX} characters"
        yield field_errors.invalid(field, name, f"{text} if iscsi.initiatorName is specified.")


def _validate_plain(source: str, content: Json, field: str) -> Iterator[FieldCause]:
    """Required fields are set. Sources that CSI drivers have replaced are checked no further."""
    shape = MESSAGES[MESSAGES["VolumeSource"].fields[source].type]
    required = [part for part in shape.fields.values() if part.always and part.type == "s" and not part.pointer]
    yield from (field_errors.required(f"{field}.{part.name}") for part in required if not content[part.name])
    secret = content.get("secretRef")
    if secret is not None and not secret.get("name") and source in ("cinder", "storageos"):
        yield field_errors.required(f"{field}.secretRef.name")
    partition = content.get("partition", 0)
    if source in _PARTS_255 and not 0 <= partition <= 255:
        yield field_errors.invalid(f"{field}.partition", partition, "must be between 1 and 255, inclusive")


def _validate_host_path(content: Json, field: str) -> list[FieldCause]:
    if not content["path"]:
        return [field_errors.required(f"{field}.path")]
    found = (
        [field_errors.invalid(f"{field}.path", content["path"], "must not contain '..'")]
        if ".." in content["path"].split("/")
        else []
    )
    return found + checks.one_of(content["type"], f"{field}.type", volumesources.HOST_PATH_TYPES)


def _validate_empty_dir(content: Json, field: str) -> list[FieldCause]:
    if parse_quantity(content.get("sizeLimit", "0")).value < 0:
        return [field_errors.forbidden(f"{field}.sizeLimit", "SizeLimit field must be a valid resource quantity")]
    return []


def _validate_nfs(content: Json, field: str) -> Iterator[FieldCause]:
    yield from (field_errors.required(f"{field}.{part}") for part in ("server", "path") if not content[part])
    if not content["path"].startswith("/"):
        yield field_errors.invalid(f"{field}.path", content["path"], "must be an absolute path")


def _validate_files(content: Json, field: str, name: str) -> list[FieldCause]:
    """Secrets and config maps as files."""
    found = [] if content.get(name) else [field_errors.required(f"{field}.{name}")]
    found += _mode(content.get("defaultMode"), f"{field}.defaultMode")
    for at, item in checks.each(content.get("items"), f"{field}.items"):
        found += [] if item["key"] else [field_errors.required(f"{at}.key")]
        found += _file(item["path"], f"{at}.path") + _mode(item.get("mode"), f"{at}.mode")
    return found


def _validate_downward(content: Json, field: str) -> Iterator[FieldCause]:
    yield from _mode(content.get("defaultMode"), f"{field}.defaultMode")
    for item in content.get("items") or []:
        yield from _file(item["path"], f"{field}.path")
        yield from _mode(item.get("mode"), f"{field}.mode")
        if "fieldRef" in item and "resourceFieldRef" in item:
            text = "fieldRef and resourceFieldRef can not be specified simultaneously"
            yield field_errors.invalid(field, "resource", text)
        if "fieldRef" in item:
            yield from podfields.validate_field(item["fieldRef"], f"{field}.fieldRef")
        elif "resourceFieldRef" in item:
            yield from podfields.validate_amount(item["resourceFieldRef"], f"{field}.resourceFieldRef")
        else:
            yield field_errors.required(field, "one of fieldRef and resourceFieldRef is required")


def _validate_projected(content: Json, field: str) -> Iterator[FieldCause]:
    yield from _mode(content.get("defaultMode"), f"{field}.defaultMode")
    paths: set[str] = set()
    for at, source in checks.each(content.get("sources"), f"{field}.sources"):
        if len(source.keys() - {*_GATED}) > 1:
            yield field_errors.forbidden(at, "may not specify more than 1 volume type per source")
        for name, check in _PROJECTED.items():
            if name in source:
                yield from check(source[name], f"{at}.{name}")
        if "serviceAccountToken" in source:
            token, place = source["serviceAccountToken"], f"{field}.path"
            yield from checks.token_life(token["expirationSeconds"], f"{at}.serviceAccountToken.expirationSeconds")
            yield from _file(token["path"], place) if token["path"] else [field_errors.required(place)]
        for name in _PROJECTED:
            for item in (source.get(name) or {}).get("items") or []:
                if item["path"] and item["path"] in paths:
                    yield field_errors.invalid(
                        field, source[name].get("name", item["path"]), "conflicting duplicate paths"
                    )
                paths.add(item["path"])


def validate_tokens(spec: Json) -> Iterator[FieldCause]:
    """For pods alone: whose token it is has to be said."""
    if spec.get("serviceAccountName"):
        return
    for field, volume in checks.each(spec.get("volumes"), "spec.volumes"):
        for at, source in checks.each((volume.get("projected") or {}).get("sources"), f"{field}.projected.sources"):
            if "serviceAccountToken" in source:
                text = "must not be specified when serviceAccountName is not set"
                yield field_errors.forbidden(f"{at}.serviceAccountToken", text)


def _validate_csi(content: Json, field: str) -> Iterator[FieldCause]:
    yield from checks.driver_name(content["driver"], f"{field}.driver")
    secret = content.get("nodePublishSecretRef")
    if secret is not None and not secret.get("name"):
        yield field_errors.required(f"{field}.nodePublishSecretRef.name")
    elif secret is not None:
        yield from field_errors.named(
            secret["name"], f"{field}.name", names.dns_subdomain
        )  # (so the real one names it)


def _validate_ephemeral(content: Json, field: str) -> Iterator[FieldCause]:
    template, at = content.get("volumeClaimTemplate"), f"{field}.volumeClaimTemplate"
    if template is None:
        yield field_errors.required(at)
        return
    meta = template["metadata"]
    for part in _CLAIM_METADATA:
        if meta.get(part) or (part == "deletionGracePeriodSeconds" and part in meta):
            yield field_errors.forbidden(f"{at}.metadata.{'uID' if part == 'uid' else part}", "cannot be set")
    yield from metadata.annotation_keys(meta.get("annotations") or {}, f"{at}.metadata.annotations")
    yield from metadata.labels(meta.get("labels") or {}, f"{at}.metadata.labels")
    yield from claimspec.validate(template["spec"], f"{at}.spec")


def _validate_image(content: Json, field: str) -> list[FieldCause]:
    return checks.one_of(content["pullPolicy"], f"{field}.pullPolicy", PULL_POLICIES)


def _validate_claim(content: Json, field: str) -> list[FieldCause]:
    return [] if content["claimName"] else [field_errors.required(f"{field}.claimName")]


def _file(path: str, field: str) -> list[FieldCause]:
    if not path:
        return [field_errors.required(field)]
    found = relative_path(path, field)
    if path.startswith("..") and not path.startswith("../"):
        found.append(field_errors.invalid(field, path, "must not start with '..'"))
    return found


def _mode(mode: int | None, field: str) -> list[FieldCause]:
    return [] if mode is None or 0 <= mode <= 0o777 else [field_errors.invalid(field, mode, _MODE)]


_validate_config_map: Final = partial(_validate_files, name="name")
_CHECKS: Final[dict[str, Callable[[Json, str], Iterable[FieldCause]]]] = {
    "hostPath": _validate_host_path,
    "emptyDir": _validate_empty_dir,
    "nfs": _validate_nfs,
    "secret": partial(_validate_files, name="secretName"),
    "configMap": _validate_config_map,
    "downwardAPI": _validate_downward,
    "persistentVolumeClaim": _validate_claim,
    "projected": _validate_projected,
    "csi": _validate_csi,
    "ephemeral": _validate_ephemeral,
    "image": _validate_image,
}
_PROJECTED: Final[dict[str, Callable[[Json, str], Iterable[FieldCause]]]] = {
    "secret": _validate_config_map,
    "configMap": _validate_config_map,
    "downwardAPI": _validate_downward,
}
