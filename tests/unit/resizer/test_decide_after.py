"""What follows from the driver's answers, as tables."""

from __future__ import annotations

from mooring.api.core import PersistentVolume, PersistentVolumeClaim
from mooring.api.pods import Pod
from mooring.api.storage import VolumeAttributesClass
from mooring.control.slim import check
from mooring.csi.errors import NON_FINAL, DriverError
from mooring.csi.proto import csi_pb2 as csi
from mooring.sidecars.resizer import view
from mooring.sidecars.resizer.expansion import decide as expansion
from mooring.sidecars.resizer.modification import decide as modification
from mooring.wire.grpc.codes import Code
from tests.support.rows import each_row
from tests.support.volume_driver import GiB

CODES = [code for code in Code if code is not Code.OK]


@each_row("code", CODES)
def test_R18_R19_the_class_of_an_error_of_growing(code):
    after = expansion.decide_after(GiB, DriverError(code, "no"))
    assert (code not in NON_FINAL, code in (Code.INVALID_ARGUMENT, Code.OUT_OF_RANGE, Code.NOT_FOUND)) == (
        after.is_final,
        after.is_infeasible,
    )
    assert ("", after.is_final) == (after.size, view.is_final_code(after.reason))


@each_row("code", CODES)
def test_M3_M5_the_class_of_an_error_of_modifying(code):
    after = modification.decide_after("gold", DriverError(code, "no"))
    assert (code is Code.INVALID_ARGUMENT) is after.is_infeasible
    assert (code in NON_FINAL) is ("Still modifying to VAC gold" in after.told)
    assert (code in NON_FINAL) is ("still in progress" in after.condition)


def test_no_error_known_is_not_final():
    assert not view.is_final_code("")


@each_row(
    ("answered", "size"), [(2 * GiB, "2Gi"), (2 * GiB + 1, str(2 * GiB + 1)), (2 * GiB - 1, ""), (0, ""), (-1, "")]
)
def test_an_answer_is_at_least_what_was_asked_for(answered, size):
    answer = csi.ControllerExpandVolumeResponse(capacity_bytes=answered, node_expansion_required=True)
    after = expansion.decide_after(2 * GiB, answer)
    assert (size, bool(size), not size) == (after.size, after.on_node, bool(after.error))
    assert (expansion.TOO_SMALL if not size else "") == after.reason
    assert not after.is_infeasible


@each_row(
    ("mask", "struct"),
    [
        (view.CLAIM, PersistentVolumeClaim),
        (view.VOLUME, PersistentVolume),
        (view.POD, Pod),
        (view.ATTRIBUTES_CLASS, VolumeAttributesClass),
    ],
)
def test_the_masks_name_fields_that_are_there(mask, struct):
    check(mask, struct)
