"""What a Status means."""

from __future__ import annotations

from mooring.kube.errors import (
    NOT_SERVED,
    AlreadyExists,
    ApiError,
    Conflict,
    NotFound,
    NotServed,
    ServerError,
    TooLarge,
    from_status,
)
from tests.support.rows import each_row


@each_row(
    ("status", "code", "kind"),
    [
        ({"reason": "AlreadyExists"}, 409, AlreadyExists),
        ({"reason": "Conflict"}, 409, Conflict),
        ({}, 503, ServerError),
        ({"reason": "NotFound", "message": 'pods "a" not found', "details": {"name": "a"}}, 404, NotFound),
        (
            {"reason": "NotFound", "message": f'pods "{NOT_SERVED}" not found', "details": {"name": NOT_SERVED}},
            404,
            NotFound,
        ),
        ({"reason": "NotFound", "message": NOT_SERVED, "details": {}}, 404, NotServed),
        ({"message": "etcdserver: request is too large"}, 500, TooLarge),
        (
            {"message": "rpc error: code = ResourceExhausted desc = trying to send message larger than max (3 vs. 2)"},
            500,
            TooLarge,
        ),
        ({"message": "etcdserver: request timed out"}, 500, ServerError),
    ],
)
def test_the_kind_of_error(status: dict[str, str], code: int, kind: type[ApiError]):
    error = from_status(status, code)
    assert (kind, code) == (type(error), error.status_code)
