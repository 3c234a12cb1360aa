"""The outgoing half: what a peer's windows let through."""

from __future__ import annotations

from unittest import mock

import pytest

from mooring.wire.grpc.frames import BrokenConnection
from mooring.wire.grpc.outgoing import Outgoing
from mooring.wire.grpc.sending import Sending
from mooring.wire.grpc.settings import WINDOW_MAX, PeerSettings


def blocked(count: int, window: int = 0) -> tuple[Sending, dict[int, Outgoing]]:
    """Streams that wait for a window, with ten bytes each."""
    sending = Sending()
    sending.settings_came(PeerSettings(window=window))
    streams = {stream_id: Outgoing(stream_id, b"x" * 10) for stream_id in range(1, 2 * count, 2)}
    for stream in streams.values():
        sending.begin(stream, b"")
    sending.take()
    return sending, streams


def test_windows_that_open_together_are_looked_at_once() -> None:
    """A peer may open windows byte by byte, or by a thousand settings in one read, while a hundred answers wait."""
    sending, streams = blocked(100)
    with mock.patch.object(Sending, "_send", autospec=True, side_effect=Sending._send) as send:
        assert all(sending.stream_window_opened(streams[7], 1) for _ in range(10))
        for window in (1, 0, 1, 0) * 100:
            sending.settings_came(PeerSettings(window=window))
            sending.window_opened(1)
        sending.go_on(streams)
    assert 100 == send.call_count
    assert 10 == sending.take().count(b"x")
    assert not streams[7].unsent


def test_a_window_that_the_peer_takes_back_may_be_below_nothing() -> None:
    sending, streams = blocked(1, window=8)
    sending.settings_came(PeerSettings(window=2))
    sending.go_on(streams)
    assert b"" == sending.take()
    sending.settings_came(PeerSettings(window=9))
    sending.go_on(streams)
    assert 1 == sending.take().count(b"x")


def test_a_window_that_settings_make_too_large_breaks_the_connection() -> None:
    sending, streams = blocked(1)
    assert sending.stream_window_opened(streams[1], WINDOW_MAX)
    sending.settings_came(PeerSettings(window=1))
    with pytest.raises(BrokenConnection, match="SETTINGS frame makes a stream's window larger"):
        sending.go_on(streams)
