"""The kinds of snapshots in the API server of a plane: the definitions in `crds/`, created at the first start and brought up to date later.

A definition that we have made says by an annotation which one it is. One that is there without it is somebody else's, and stays as it is.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from importlib import resources
from typing import Any, Final

from mooring.api.definitions import CUSTOM_RESOURCE_DEFINITIONS
from mooring.apiserver.codecs.yamlbody import parse_yaml
from mooring.kube.cluster import Cluster
from mooring.kube.errors import NotFound

DIGEST: Final = "mooring.dev/definition"
"""The annotation with the digest of the definition as it was made."""
_FILES: Final = ("volumesnapshotclasses.yaml", "volumesnapshotcontents.yaml", "volumesnapshots.yaml")
_GROUP_FILES: Final = ("volumegroupsnapshotclasses.yaml", "volumegroupsnapshotcontents.yaml", "volumegroupsnapshots.yaml")


def definitions(*, groups: bool = True) -> Iterator[dict[str, Any]]:
    """With their digests. groups: the kinds of group snapshots, too."""
    folder = resources.files("mooring.dev") / "crds"
    for name in _FILES + (_GROUP_FILES if groups else ()):
        content = (folder / name).read_bytes()
        definition = parse_yaml(content)
        definition["metadata"]["annotations"][DIGEST] = hashlib.sha256(content).hexdigest()[:16]
        yield definition


async def install(cluster: Cluster, *, groups: bool = True) -> None:
    """The server serves the kinds once this has returned."""
    for definition in definitions(groups=groups):
        name = definition["metadata"]["name"]
        try:
            there = await cluster.get(CUSTOM_RESOURCE_DEFINITIONS, name)
        except NotFound:
            await cluster.create(CUSTOM_RESOURCE_DEFINITIONS, definition)
            continue
        digest, ours = (one["metadata"].get("annotations", {}).get(DIGEST) for one in (there, definition))
        if digest is not None and digest != ours:
            await cluster.replace(CUSTOM_RESOURCE_DEFINITIONS, _updated(there, definition))


def _updated(there: dict[str, Any], definition: dict[str, Any]) -> dict[str, Any]:
    """With what others have written on it."""
    annotations = {**there["metadata"].get("annotations", {}), **definition["metadata"]["annotations"]}
    return {**there, "metadata": {**there["metadata"], "annotations": annotations}, "spec": definition["spec"]}
