"""meta/v1: what all kinds share."""

from mooring.apiserver.objectmeta import MESSAGES

__all__ = ["MESSAGES"]
