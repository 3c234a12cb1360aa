"""Every reason of ephemeral volumes, in a user's words."""

from __future__ import annotations

from mooring.control.reasons import reason


@reason("{count} claims are to be made")
class ClaimsNeeded:
    count: int


@reason("{problem}")
class ForeignClaim:
    """A claim of that name has another owner."""

    problem: str
