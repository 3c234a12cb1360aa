"""URLs of API resources: `/apis/<group>/<version>/[namespaces/<ns>/]<plural>[/<name>[/<subresource>]]` and their
queries.

Names come from objects that anybody may have written. A name that can't be one path segment is refused here, as in
client-go: a volume named `../secrets/x` must not lead anywhere.
"""

from __future__ import annotations

import functools
import math
import re
from typing import Any, Final
from urllib.parse import quote, urlencode

from mooring.api.meta import Kind
from mooring.kube.cluster import PatchType, Request, Selection
from mooring.kube.errors import BadRequest

_PLAIN: Final = re.compile(r"[A-Za-z0-9_~.-]*[A-Za-z0-9_~-]")  # ends in no dot: neither "." nor ".."


class ResourcePaths:
    def __init__(self, kind: Kind[Any]) -> None:
        root = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
        self.version = root
        """The path at which discovery lists the kinds of this version."""
        self._everywhere = f"{root}/{kind.plural}"
        self._namespaces = f"{root}/namespaces/"
        self._plural = kind.plural
        self._namespaced = kind.namespaced

    def collection(self, namespace: str | None) -> str:
        """namespace: None is all of them; "" for cluster-scoped kinds."""
        if not self._namespaced or namespace is None:
            assert not namespace, f"{self._plural} have no namespace"
            return self._everywhere
        return f"{self._namespaces}{_segment(namespace, 'namespace')}/{self._plural}"

    def object(self, name: str, namespace: str, subresource: str = "") -> str:
        """Raises BadRequest for a name that no object can have."""
        path = f"{self.collection(namespace)}/{_segment(name, 'name')}"
        return f"{path}/{subresource}" if subresource else path


@functools.cache
def paths_of(kind: Kind[Any]) -> ResourcePaths:
    return ResourcePaths(kind)


def list_query(
    selection: Selection, limit: int, continue_token: str, resource_version: str, *, with_objects: bool = True
) -> str:
    """`?…` of a list, "" when nothing is asked for. A continue token says the version itself; servers refuse both.

    with_objects: False for rows alone.
    """
    return _query(
        labelSelector=selection.label_selector,
        fieldSelector=selection.field_selector,
        limit=str(limit) if limit > 0 else "",
        resourceVersion="" if continue_token else resource_version,
        includeObject="" if with_objects else "None",
        **{"continue": continue_token},
    )


def watch_query(selection: Selection, resource_version: str, timeout_s: float) -> str:
    """`?…` of a watch with bookmarks. timeout_s: 0 leaves the end to the server; rounded up to whole seconds."""
    return _query(
        watch="true",
        allowWatchBookmarks="true",
        labelSelector=selection.label_selector,
        fieldSelector=selection.field_selector,
        resourceVersion=resource_version,
        timeoutSeconds=str(math.ceil(timeout_s)) if timeout_s > 0 else "",
    )


def apply_query(request: Request) -> str:
    """`?…` of a server-side apply, "" for any other patch."""
    if request.body.type is not PatchType.APPLY:
        return ""
    return _query(fieldManager=request.field_manager, force="true" if request.force else "")


def _query(**parameters: str) -> str:
    given = {name: value for name, value in parameters.items() if value}
    try:
        return f"?{urlencode(given, quote_via=quote)}" if given else ""
    except UnicodeEncodeError:
        raise BadRequest("a selector holds half a character (a lone surrogate)", reason="BadRequest") from None


def _segment(text: str, what: str) -> str:
    if _PLAIN.fullmatch(text):
        return text
    shown = text if len(text) <= 80 else f"{text[:80]}…"
    if not text:
        raise BadRequest(f"resource {what} may not be empty", reason="BadRequest")
    if text in (".", "..") or "/" in text or "%" in text:
        raise BadRequest(
            f"invalid resource {what} {shown!r}: it may not be '.' or '..', nor contain '/' or '%'", reason="BadRequest"
        )
    try:
        return quote(text, safe="")
    except UnicodeEncodeError:
        raise BadRequest(f"invalid resource {what} {shown!r}: it holds half a character", reason="BadRequest") from None
