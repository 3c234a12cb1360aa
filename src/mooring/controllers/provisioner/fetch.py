"""Asking the API server for what no cache holds."""

from __future__ import annotations

from mooring.api.core import SECRETS, SecretReference
from mooring.control.secrets import SecretCache, SecretError
from mooring.controllers.provisioner.claims.view import Looked, Wanted
from mooring.kube.cluster import Cluster
from mooring.kube.errors import ApiError


async def look_up(cluster: Cluster, secrets: SecretCache, wanted: Wanted, looked: Looked) -> None:
    """Puts the object into what the attempt has looked up, or the error: that is an answer, too."""
    try:
        if wanted.kind is SECRETS:
            looked.found[wanted] = await secrets.get(SecretReference(name=wanted.name, namespace=wanted.namespace))
        else:
            looked.found[wanted] = await cluster.get(wanted.kind, wanted.name, wanted.namespace)
    except (ApiError, SecretError) as error:
        looked.found[wanted] = error
