"""Random values are of the form that their readers expect."""

from __future__ import annotations

import uuid

from mooring.base.randomness import Random


def test_a_uid_is_a_uuid_of_version_4():
    random = Random(7)
    for _ in range(1000):
        uid = random.uid()
        read = uuid.UUID(uid)
        assert (str(read), read.version, read.variant) == (uid, 4, uuid.RFC_4122)


def test_uids_repeat_with_their_seed_and_nowhere_else():
    uids = [random.uid() for random in (Random(7), Random(7), Random(8), Random(), Random())]
    assert len(set(uids)) == 4
    assert uids[0] == uids[1]
