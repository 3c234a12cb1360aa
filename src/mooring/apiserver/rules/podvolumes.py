"""The volumes of a pod: exactly one source each, and a valid one."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from mooring.api import names
from mooring.api.quantity import parse_quantity
from mooring.apiserver import field_errors, metadata
from mooring.apiserver.field_errors import FieldCause
from mooring.apiserver.resource import Json
from mooring.apiserver.rules import checks, claimspec, volumesources
from mooring.apiserver.rules.podshape import MESSAGES

SOURCES: Final = tuple(MESSAGES["VolumeSource"].fields)
_ORDER: Final = (
    *("emptyDir", "hostPath", "gitRepo", "gcePersistentDisk", "awsElasticBlockStore", "secret", "nfs", "iscsi", "glusterfs", "flocker"),
    *("persistentVolumeClaim", "rbd", "cinder", "cephfs", "quobyte", "downwardAPI", "fc", "flexVolume", "configMap", "azureFile"),
    *("vsphereVolume", "photonPersistentDisk", "portworxVolume", "azureDisk", "storageos", "projected", "scaleIO", "csi", "ephemeral"),
    "image",
)
"""If there are two sources, the later one is the wrong one."""
assert sorted(_ORDER) == sorted(SOURCES)

_RENAMED: Final = {"gcePersistentDisk": "persistentDisk"}
_PARTS_255: Final = ("gcePersistentDisk", "awsElasticBlockStore")
_PULL_POLICIES: Final = ("Always", "IfNotPresent", "Never")
_MODE: Final = "must be a number between 0 and 0777 (octal), both inclusive"
_CLAIM_METADATA: Final = ("name", "generateName", "namespace", "ownerReferences", "finalizers")
_DOWNWARD: Final = ("metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid")
_WITH_KEY: Final = re.compile(r"metadata\.(annotations|labels)\['.+'\]")


def validate(spec: Json, pod_name: str) -> Iterator[FieldCause]:
    seen: set[str] = set()
    for number, volume in enumerate(spec.get("volumes") or []):
        field, name = f"spec.volumes[{number}]", volume["name"]
        if not name:
            yield field_errors.required(f"{field}.name")
        elif names.dns_label(name):
            yield from checks.named(name, f"{field}.name", names.dns_label)
        elif name in seen:
            yield field_errors.duplicate(f"{field}.name", name)
        seen.add(name)
        yield from _validate_source(volume, field, spec)
        if name and "ephemeral" in volume and pod_name and names.dns_subdomain(f"{pod_name}-{name}"):
            reasons = names.dns_subdomain(f"{pod_name}-{name}")
            yield from (field_errors.invalid(f"{field}.name", name, f'PVC name "{pod_name}-{name}": {reason}') for reason in reasons)


def relative_path(path: str, field: str) -> list[FieldCause]:
    """The errors of a path that is absolute or has a '..'."""
    if path.startswith("/"):
        return [field_errors.invalid(field, path, "must be a relative path")]
    return [field_errors.invalid(field, path, "must not contain '..'")] if ".." in path.split("/") else []


def _validate_source(volume: Json, field: str, spec: Json) -> Iterator[FieldCause]:
    given = [source for source in _ORDER if source in volume]
    source, others = given[0], given[1:]
    check = _CHECKS.get(source)
    if check is not None:
        yield from check(volume[source], f"{field}.{source}")
    elif source == "projected":
        yield from _validate_projected(volume[source], f"{field}.{source}", spec)
    else:
        yield from _validate_plain(source, volume[source], f"{field}.{_RENAMED.get(source, source)}")
    for other in others:
        yield field_errors.forbidden(f"{field}.{volumesources.ALSO_CALLED.get(other, other)}", "may not specify more than 1 volume type")


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
    found = [field_errors.invalid(f"{field}.path", content["path"], "must not contain '..'")] if ".." in content["path"].split("/") else []
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
        elif "fieldRef" in item:
            path = item["fieldRef"]["fieldPath"]
            if not _WITH_KEY.fullmatch(path):
                yield from checks.one_of(path, f"{field}.fieldRef.fieldPath", _DOWNWARD)
        elif "resourceFieldRef" in item:
            yield from _validate_amount(item["resourceFieldRef"], f"{field}.resourceFieldRef")
        else:
            yield field_errors.required(field, "one of fieldRef and resourceFieldRef is required")


def _validate_amount(reference: Json, field: str) -> list[FieldCause]:
    parts = ("containerName", "resource")
    return [field_errors.required(f"{field}.{part}") for part in parts if not reference.get(part)]


def _validate_projected(content: Json, field: str, spec: Json) -> Iterator[FieldCause]:
    yield from _mode(content.get("defaultMode"), f"{field}.defaultMode")
    paths: set[str] = set()
    for at, source in checks.each(content.get("sources"), f"{field}.sources"):
        if len(source) > 1:
            yield field_errors.forbidden(at, "may not specify more than 1 volume type per source")
        for name, check in _PROJECTED.items():
            if name in source:
                yield from check(source[name], f"{at}.{name}")
        if "serviceAccountToken" in source:
            yield from _validate_token(source["serviceAccountToken"], f"{at}.serviceAccountToken", field, spec)
        for path in _paths(source):
            if path in paths:
                yield field_errors.invalid(field, source[next(iter(source))].get("name", path), "conflicting duplicate paths")
            paths.add(path)


def _validate_token(content: Json, field: str, volume: str, spec: Json) -> Iterator[FieldCause]:
    if not spec.get("serviceAccountName"):
        yield field_errors.forbidden(field, "must not be specified when serviceAccountName is not set")
    yield from checks.token_life(content["expirationSeconds"], f"{field}.expirationSeconds")
    yield from _file(content["path"], f"{volume}.path")


def _paths(source: Json) -> list[str]:
    """Where a projected source puts its files, as far as it says."""
    if "serviceAccountToken" in source:
        return [source["serviceAccountToken"]["path"]]
    return [item["path"] for content in source.values() for item in content.get("items") or []]


def _validate_csi(content: Json, field: str) -> Iterator[FieldCause]:
    yield from checks.driver_name(content["driver"], f"{field}.driver")
    secret = content.get("nodePublishSecretRef")
    if secret is not None and not secret.get("name"):
        yield field_errors.required(f"{field}.nodePublishSecretRef.name")


def _validate_ephemeral(content: Json, field: str) -> Iterator[FieldCause]:
    template, at = content.get("volumeClaimTemplate"), f"{field}.volumeClaimTemplate"
    if template is None:
        yield field_errors.required(at)
        return
    meta = template["metadata"]
    yield from (field_errors.forbidden(f"{at}.metadata.{part}", "cannot be set") for part in _CLAIM_METADATA if meta.get(part))
    yield from metadata.labels(meta.get("labels") or {}, f"{at}.metadata.labels")
    yield from claimspec.validate(template["spec"], f"{at}.spec")


def _validate_image(content: Json, field: str) -> list[FieldCause]:
    found = [] if content.get("reference") else [field_errors.required(f"{field}.reference")]
    return found + checks.one_of(content["pullPolicy"], f"{field}.pullPolicy", _PULL_POLICIES)


def _validate_claim(content: Json, field: str) -> list[FieldCause]:
    return [] if content["claimName"] else [field_errors.required(f"{field}.claimName")]


def _file(path: str, field: str) -> list[FieldCause]:
    if not path:
        return [field_errors.required(field)]
    found = relative_path(path, field)
    if path.startswith("..") and not found:
        found.append(field_errors.invalid(field, path, "must not start with '..'"))
    return found


def _mode(mode: int | None, field: str) -> list[FieldCause]:
    return [] if mode is None or 0 <= mode <= 0o777 else [field_errors.invalid(field, mode, _MODE)]


def _validate_secret(content: Json, field: str) -> list[FieldCause]:
    return _validate_files(content, field, "secretName")


def _validate_config_map(content: Json, field: str) -> list[FieldCause]:
    return _validate_files(content, field, "name")


_CHECKS: Final[dict[str, Callable[[Json, str], Iterable[FieldCause]]]] = {
    "hostPath": _validate_host_path,
    "emptyDir": _validate_empty_dir,
    "nfs": _validate_nfs,
    "secret": _validate_secret,
    "configMap": _validate_config_map,
    "downwardAPI": _validate_downward,
    "persistentVolumeClaim": _validate_claim,
    "csi": _validate_csi,
    "ephemeral": _validate_ephemeral,
    "image": _validate_image,
}
_PROJECTED: Final[dict[str, Callable[[Json, str], Iterable[FieldCause]]]] = {
    "secret": _validate_config_map,
    "configMap": _validate_config_map,
    "downwardAPI": _validate_downward,
}
