"""Why something is done about a registration socket, in words."""

from __future__ import annotations

from mooring.control.reasons import reason


@reason("the socket is new")
class NewSocket:
    pass


@reason("the socket is gone")
class SocketGone:
    pass


@reason("the socket is gone, and has its time to come back")
class SocketMayComeBack:
    pass


@reason("the socket was made anew")
class SocketMadeAnew:
    pass


@reason("its plugin is registered")
class Registered:
    pass


@reason("there is no socket, and nothing is registered")
class NoSocket:
    pass
