"""The two rows of snapshots: the names that are made of a word are those of external-snapshotter."""

from __future__ import annotations

from mooring.api import snapshot_names as names
from mooring.api.snapshot_kinds import GROUPS, SINGLES
from tests.support.rows import each_row


@each_row(
    ("row", "made"),
    [
        (
            SINGLES,
            {
                "being_created": names.BEING_CREATED,
                "being_deleted": names.BEING_DELETED,
                "bound_finalizer": names.BOUND_FINALIZER,
                "content_finalizer": names.CONTENT_FINALIZER,
                "default_class": names.DEFAULT_CLASS,
                "secret_name": names.SECRET_NAME,
                "secret_namespace": names.SECRET_NAMESPACE,
                "finalizers": (names.AS_SOURCE_FINALIZER, names.BOUND_FINALIZER, names.IN_GROUP_FINALIZER),
                "class_field": "volumeSnapshotClassName",
                "ref_field": "volumeSnapshotRef",
            },
        ),
        (
            GROUPS,
            {
                "being_created": names.GROUP_BEING_CREATED,
                "being_deleted": names.GROUP_BEING_DELETED,
                "bound_finalizer": names.GROUP_FINALIZER,
                "content_finalizer": names.GROUP_CONTENT_FINALIZER,
                "default_class": names.GROUP_DEFAULT_CLASS,
                "secret_name": names.GROUP_SECRET_NAME,
                "secret_namespace": names.GROUP_SECRET_NAMESPACE,
                "finalizers": (names.GROUP_FINALIZER, names.IN_GROUP_FINALIZER),
                "class_field": "volumeGroupSnapshotClassName",
                "ref_field": "volumeGroupSnapshotRef",
            },
        ),
    ],
)
def test_a_name_is_the_programs_own(row, made):
    assert made == {field: getattr(row, field) for field in made}
