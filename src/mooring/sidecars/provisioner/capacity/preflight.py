"""Requirements of publishing: the API's version, and the owner of the objects."""

from __future__ import annotations

from typing import Any, Final

from mooring.api.meta import Kind, OwnerReference
from mooring.api.pods import PODS
from mooring.api.storage import CSIStorageCapacity
from mooring.base.errors import ConfigError
from mooring.base.log import logger
from mooring.control.runtime import Runtime
from mooring.kube.cluster import Cluster
from mooring.kube.errors import ApiError, Invalid, NotServed, ServerError, TooManyRequests, Unreachable
from mooring.sidecars.provisioner.capacity.reconcile import of_version
from mooring.sidecars.provisioner.options import CapacityOptions

PASSING: Final = (ServerError, TooManyRequests, Unreachable)
"""Errors that say nothing about the cluster; passed on, so that the question is put again."""

ASK_AGAIN_S: Final = 2.0

_IMPOSSIBLE_NAME: Final = "#%123-invalid-name"

log = logger(__name__)


async def preflight(
    runtime: Runtime, options: CapacityOptions
) -> tuple[Kind[CSIStorageCapacity], OwnerReference | None]:
    """The kind in the version that the server has, and the owner of its objects. Raises ConfigError."""
    cluster, namespace = runtime.cluster, options.namespace
    while True:
        try:
            kind = await capacity_kind(cluster, namespace)
            return kind, await owner_of(cluster, namespace, options.pod_name, options.owner_level)
        except PASSING as error:
            log.error(
                "could not learn what publishing capacity needs, trying again", error=error, retry_in_s=ASK_AGAIN_S
            )
            await runtime.clock.sleep(ASK_AGAIN_S)


async def capacity_kind(cluster: Cluster, namespace: str) -> Kind[CSIStorageCapacity]:
    """The kind in the version that the server has, found by a create that no server accepts. Raises ConfigError, and
    PASSING.
    """
    for version in ("v1", "v1beta1"):
        kind = of_version(version)
        metadata = {"name": _IMPOSSIBLE_NAME, "namespace": namespace}
        try:
            await cluster.create(
                kind.whole(), {"apiVersion": kind.api_version, "kind": kind.name, "metadata": metadata}, namespace
            )
        except Invalid:
            return kind
        except NotServed:
            continue
        except PASSING:
            raise
        except ApiError as error:
            raise ConfigError(
                f"enable-capacity: CSIStorageCapacity can't be used in namespace {namespace}: {error}"
            ) from error
        raise ConfigError(f'enable-capacity: the API server has taken a CSIStorageCapacity named "{_IMPOSSIBLE_NAME}"')
    raise ConfigError("enable-capacity: the API server has no CSIStorageCapacity in v1 or v1beta1")


async def owner_of(cluster: Cluster, namespace: str, pod_name: str, level: int) -> OwnerReference | None:
    """The pod (level 0), its controller (1), that one's (2), ...; None for a negative level. Raises ConfigError, and
    PASSING.
    """
    if level < 0:
        return None
    kind: Kind[dict[str, Any]] = PODS.whole()
    owner = _reference(kind, await _found(cluster, kind, namespace, pod_name)) if level == 0 else None
    name = pod_name
    for _ in range(level):
        owner = _controller(await _found(cluster, kind, namespace, name))
        if owner is None:
            raise ConfigError(
                f"capacity-ownerref-level: {kind.name} {namespace}/{name} has no controlling owner, which "
                f"level {level} needs"
            )
        kind, name = _kind_of(owner), owner.name
    return owner


async def _found(cluster: Cluster, kind: Kind[dict[str, Any]], namespace: str, name: str) -> dict[str, Any]:
    try:
        return await cluster.get(kind, name, namespace)
    except PASSING:
        raise
    except ApiError as error:
        raise ConfigError(f"capacity-ownerref-level: can't look up {kind.name} {namespace}/{name}: {error}") from error


def _reference(kind: Kind[Any], found: dict[str, Any]) -> OwnerReference:
    meta = found["metadata"]
    return OwnerReference(
        api_version=kind.api_version, kind=kind.name, name=meta["name"], uid=meta["uid"], controller=True
    )


def _controller(found: dict[str, Any]) -> OwnerReference | None:
    for one in found["metadata"].get("ownerReferences") or ():
        if one.get("controller"):
            return OwnerReference(
                api_version=one["apiVersion"], kind=one["kind"], name=one["name"], uid=one["uid"], controller=True
            )
    return None


def _kind_of(owner: OwnerReference) -> Kind[dict[str, Any]]:
    """The owner's resource, its plural guessed by the rule of Kubernetes' own tools."""
    group, _, version = owner.api_version.rpartition("/")
    name = owner.kind.lower()
    if name.endswith("s"):
        plural = f"{name}es"
    elif name.endswith("y"):
        plural = f"{name[:-1]}ies"
    else:
        plural = f"{name}s"
    return Kind(group, version, owner.kind, plural, True, dict)
