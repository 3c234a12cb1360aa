"""A StorageClass's parameters: ours, the driver's, the secrets that they name, and the templates in them.

Keys under `csi.storage.k8s.io/` are ours and never reach the driver; all others pass through untouched, the old spellings of ours too.
Templates, `${pvc.name}` and its like: `api/templates.py`.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping
from typing import Final

from mooring.api.core import SecretReference
from mooring.api.names import dns_label, dns_subdomain
from mooring.api.templates import InvalidTokens, expanded
from mooring.base.errors import MooringError

PREFIX: Final = "csi.storage.k8s.io/"
FS_TYPE: Final = f"{PREFIX}fstype"


class ParameterError(MooringError):
    """The class's parameters can't be used. str() is the event's text, as external-provisioner has it."""


class SecretKind(enum.Enum):
    """The use of a secret, under the names of the error texts. new, old: the keys' prefixes; old is "" where there never was one."""

    DEFAULT = ("Default", "", "")
    PROVISIONER = ("Provisioner", "provisioner-", "csiProvisionerSecret")
    CONTROLLER_PUBLISH = ("ControllerPublish", "controller-publish-", "csiControllerPublishSecret")
    NODE_STAGE = ("NodeStage", "node-stage-", "csiNodeStageSecret")
    NODE_PUBLISH = ("NodePublish", "node-publish-", "csiNodePublishSecret")
    CONTROLLER_EXPAND = ("ControllerExpand", "controller-expand-", "")
    NODE_EXPAND = ("NodeExpand", "node-expand-", "")
    CONTROLLER_MODIFY = ("ControllerModify", "controller-modify-", "")

    def __init__(self, title: str, new: str, old: str) -> None:
        self.title = title
        self.name_keys = (f"{PREFIX}{new}secret-name", *([f"{old}Name"] if old else []))
        self.namespace_keys = (f"{PREFIX}{new}secret-namespace", *([f"{old}Namespace"] if old else []))
        self.keys = frozenset({*self.name_keys, *self.namespace_keys})


_KNOWN: Final = frozenset({FS_TYPE}.union(*(kind.keys for kind in SecretKind)))


@dataclasses.dataclass(frozen=True, slots=True)
class TemplateValues:
    """The values that templates may name. claim_annotations, claim_name: None where the claim is not known (deletion)."""

    pv_name: str
    claim_namespace: str
    claim_name: str | None = None
    claim_annotations: Mapping[str, str] | None = None


def for_driver(parameters: Mapping[str, str]) -> dict[str, str]:
    """The parameters without our own. Raises ParameterError for a key under our prefix that nobody knows."""
    for key in sorted(parameters):
        if key.startswith(PREFIX) and key not in _KNOWN:
            why = f'found unknown parameter key "{key}" with reserved namespace csi.storage.k8s.io/'
            raise ParameterError(f"failed to strip CSI Parameters of prefixed keys: {why}")
    return {key: value for key, value in parameters.items() if not key.startswith(PREFIX)}


def fs_type(parameters: Mapping[str, str], default: str) -> str:
    """The file system that the class asks for. Raises ParameterError when it does so twice."""
    found = [value for key, value in parameters.items() if key == FS_TYPE or key.lower() == "fstype"]
    if len(found) > 1:
        raise ParameterError(f'fstype specified in parameters with both "fstype" and "{FS_TYPE}" keys')
    return (found[0] if found else "") or default


def secret_of(kind: SecretKind, parameters: Mapping[str, str], values: TemplateValues) -> SecretReference | None:
    """The secret of that kind, or the default one; None without. Raises ParameterError."""
    templates = _templates(kind, parameters)
    if templates is None and kind is not SecretKind.DEFAULT:
        templates = _templates(SecretKind.DEFAULT, parameters)
    if templates is None:
        return None
    name, namespace = templates
    known = {"pv.name": values.pv_name, "pvc.namespace": values.claim_namespace}
    in_namespace = _resolved(namespace, known)
    if dns_label(in_namespace):
        raise ParameterError(_unusable(namespace, in_namespace, "namespace name"))
    if values.claim_name is not None:
        known["pvc.name"] = values.claim_name
        known.update({f"pvc.annotations['{key}']": value for key, value in (values.claim_annotations or {}).items()})
    named = _resolved(name, known)
    if dns_subdomain(named):
        raise ParameterError(_unusable(name, named, "secret name"))
    return SecretReference(name=named, namespace=in_namespace)


def _templates(kind: SecretKind, parameters: Mapping[str, str]) -> tuple[str, str] | None:
    """Name and namespace as the class has them."""
    if kind.keys.isdisjoint(parameters):
        return None
    names = [parameters[key] for key in kind.name_keys if key in parameters]
    namespaces = [parameters[key] for key in kind.namespace_keys if key in parameters]
    failed = "failed to get default name" if kind is SecretKind.DEFAULT else "failed to get name"
    failed += " and namespace template from params: "
    if len(names) > 1 or len(namespaces) > 1:
        why = f'{kind.title} secrets specified in parameters with both "csi" and "{PREFIX}" keys'
    elif not names or not namespaces:
        why = f"either name and namespace for {kind.title} secrets specified, Both must be specified"
    elif not names[0] or not namespaces[0]:
        why = f"{kind.title} secrets specified in parameters but value of either namespace or name is empty"
    else:
        return names[0], namespaces[0]
    raise ParameterError(failed + why)


def _resolved(template: str, known: Mapping[str, str]) -> str:
    try:
        return expanded(template, known)
    except InvalidTokens as error:
        raise ParameterError(f'error resolving value "{template}": {error}') from error


def _unusable(template: str, result: str, what: str) -> str:
    if template == result:
        return f'"{template}" is not a valid {what}'
    return f'"{template}" resolved to "{result}" which is not a valid {what}'
