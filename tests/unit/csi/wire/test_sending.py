"""The outgoing half: what a peer's windows let through."""

from __future__ import annotations

from unittest import mock

from mooring.csi.wire.outgoing import Outgoing
from mooring.csi.wire.sending import Sending


def test_a_window_of_one_stream_is_no_work_on_the_others() -> None:
    """A peer may open windows byte by byte, while a hundred answers wait."""
    sending, streams = Sending(), [Outgoing(2 * number + 1, 0, b"x" * 10) for number in range(100)]
    for stream in streams:
        sending.begin(stream, b"")
    sending.take()
    with mock.patch.object(Sending, "_send", autospec=True, side_effect=Sending._send) as send:
        assert all(sending.stream_window_opened(streams[7], 1) for _ in range(10))
    assert 10 == send.call_count
    assert 10 == sending.take().count(b"x")
    assert not streams[7].unsent
