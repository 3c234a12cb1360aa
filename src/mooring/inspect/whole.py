"""An object that was read as whole JSON, as its kind decodes it."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from mooring.api.meta import Kind
from mooring.kube.client.codec import codec_of
from mooring.kube.errors import ServerError

T = TypeVar("T")


def decoded(kind: Kind[T], whole: dict[str, Any]) -> T:
    """Raises ServerError for one that can't be read."""
    try:
        return codec_of(kind.struct).object(msgspec.json.encode(whole))
    except ValueError as error:
        raise ServerError(f"one of the {kind.plural} can't be read: {error}", code=502) from None
