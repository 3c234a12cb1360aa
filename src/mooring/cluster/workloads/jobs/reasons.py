"""Every reason of Jobs, in a user's words."""

from __future__ import annotations

from mooring.control.reasons import reason


@reason("it is gone: its pods are let go")
class Gone:
    pass


@reason("its Job is gone: nobody counts it")
class Orphan:
    pass


@reason("its Job counts it, or it is no Job's")
class NoOrphan:
    pass


@reason("it is being deleted: the garbage collector deletes its pods")
class Deleting:
    pass


@reason("it is over")
class Over:
    pass


@reason("it is over for {seconds} s: it goes")
class Expired:
    seconds: int


@reason('another controller manages it: "{name}"')
class Foreign:
    name: str


@reason("completion mode Indexed is not known here: it stays as it is")
class Indexed:
    pass


@reason("it ends: {message}")
class Ends:
    message: str


@reason("it is suspended: no pod of it runs")
class Suspended:
    pass


@reason("{count} pods run, and {wanted} are enough")
class TooMany:
    count: int
    wanted: int


@reason("{failures} pods have failed: the next one waits a while")
class BacksOff:
    failures: int


@reason("{wanted} pods are to run, {succeeded} have succeeded")
class Runs:
    wanted: int
    succeeded: int
