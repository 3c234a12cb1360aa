"""Asking the API server for what no cache holds."""

from __future__ import annotations

from typing import Any, Final

from mooring.api.core import SECRETS, SecretReference
from mooring.api.meta import Kind
from mooring.kube.cluster import Cluster
from mooring.kube.errors import ApiError, NotFound
from mooring.kube.secrets import SecretCache, SecretError
from mooring.provisioner.view import Looked, Wanted

_ANY_NAME: Final = "any"


async def look_up(cluster: Cluster, secrets: SecretCache, wanted: Wanted, looked: Looked) -> None:
    """Puts the object into what the attempt has looked up, or the error: that is an answer, too."""
    try:
        if wanted.kind is SECRETS:
            looked.found[wanted] = await secrets.get(SecretReference(name=wanted.name, namespace=wanted.namespace))
        else:
            looked.found[wanted] = await cluster.get(wanted.kind, wanted.name, wanted.namespace)
    except (ApiError, SecretError) as error:
        looked.found[wanted] = error


async def is_served(cluster: Cluster, kind: Kind[Any]) -> bool:
    """False when the API server has no such kind of cluster-wide objects; True also when nobody can tell.

    A GET of any name tells, which needs no right that looking up does not need: where only the object is missing, the answer names it.
    """
    try:
        await cluster.get(kind, _ANY_NAME)
    except NotFound as error:
        return error.details.get("name") == _ANY_NAME
    except ApiError:
        pass
    return True
