"""Secrets go to the driver and nowhere else: canaries through every RPC that has secret fields, at every level of the
log.
"""

import json
import traceback

from mooring.base.metrics import Metrics
from mooring.csi.driver import RPCS, Call
from mooring.csi.errors import DriverError
from mooring.csi.metrics import CallMetrics
from mooring.csi.redact import TOKENS_KEY, is_secret
from mooring.wire.grpc.codes import Code
from tests.support.rows import each_row
from tests.unit.csi.servers import CALL, Plugin, failing

CANARIES = ("canary-password", "canary-key-line-1", "canary-key-line-2")
SECRETS = {"password": CANARIES[0], "key": f"{CANARIES[1]}\n{CANARIES[2]}\n"}
TOKEN = "canary-token"
TOKENS = json.dumps({"vault": {"token": TOKEN, "expirationTimestamp": "2030-01-01T00:00:00Z"}})
LEVELS = (0, 2, 4, 5, 10)

WITH_SECRETS = [rpc for rpc in RPCS.values() if any(is_secret(field) for field in rpc.request_type.DESCRIPTOR.fields)]
WITH_CONTEXT = [rpc for rpc in RPCS.values() if "volume_context" in rpc.request_type.DESCRIPTOR.fields_by_name]


def name_of(rpc):
    return rpc.name


def test_the_rpcs_with_secrets_are_those_of_the_specification():
    """csi-proto.md section 5; the two streams of SnapshotMetadata are not in the port."""
    assert {rpc.name for rpc in WITH_SECRETS} == {
        "ControllerExpandVolume",
        "ControllerModifyVolume",
        "ControllerPublishVolume",
        "ControllerUnpublishVolume",
        "CreateSnapshot",
        "CreateVolume",
        "CreateVolumeGroupSnapshot",
        "DeleteSnapshot",
        "DeleteVolume",
        "DeleteVolumeGroupSnapshot",
        "GetSnapshot",
        "GetVolumeGroupSnapshot",
        "ListSnapshots",
        "NodeExpandVolume",
        "NodePublishVolume",
        "NodeStageVolume",
        "ValidateVolumeCapabilities",
    }


class Watch:
    """All that can be seen from outside of calls: both forms of the log, errors, metrics."""

    def __init__(self, log):
        self._log = log
        self._page = Metrics()
        self.metrics = CallMetrics(self._page.registry)
        self.seen = ""

    async def call(self, driver, rpc, request, call):
        """Makes the call at each level and in each form. Gives the errors."""
        errors = []
        for json_form in (True, False):
            for level in LEVELS:
                kept = self._log(verbosity=level, json=json_form)
                try:
                    await getattr(driver, rpc.attribute)(request, call)
                except DriverError as error:
                    errors.append(error)
                    self.seen += (
                        f"{error} {error!r} {error.message} {vars(error)} {''.join(traceback.format_exception(error))}"
                    )
                self.seen += kept.text
        self.seen += self._page.render().decode()
        return errors


@each_row("rpc", WITH_SECRETS, ids=name_of)
async def test_secrets_are_seen_by_the_driver_alone(road, log, rpc):
    arrived = []

    async def method(request):
        arrived.append(dict(request.secrets))
        return rpc.response_type()

    watch = Watch(log)
    async with road(Plugin(**{rpc.attribute: method}), metrics=watch.metrics) as driver:
        assert await watch.call(driver, rpc, rpc.request_type(secrets=SECRETS), CALL) == []
    assert arrived == [SECRETS] * len(arrived)
    assert watch.seen.count("GRPC call") == 4
    assert [canary for canary in CANARIES if canary in watch.seen] == []


@each_row("rpc", WITH_SECRETS, ids=name_of)
async def test_secrets_that_the_driver_repeats_in_its_error_stay_hidden(road, log, rpc):
    """As drivers do that put the failed command line into their message. It ends in attachError, events and logs."""
    told = f"exit 1: mount -o pass={SECRETS['password']} --key {SECRETS['key']!r}: {SECRETS['key']} ({CANARIES[2]})"
    watch = Watch(log)
    async with road(
        Plugin(**{rpc.attribute: failing(DriverError(Code.INTERNAL, told))}), metrics=watch.metrics
    ) as driver:
        errors = await watch.call(driver, rpc, rpc.request_type(secrets=SECRETS), CALL)
    assert {error.code for error in errors} == {Code.INTERNAL}
    assert errors[0].message.startswith("exit 1: mount -o pass=***stripped*** --key")
    assert [canary for canary in CANARIES if canary in watch.seen] == []


@each_row("rpc", WITH_SECRETS[:1], ids=name_of)
async def test_secrets_stay_hidden_when_the_call_is_late_or_the_driver_breaks(road, log, rpc):
    async def never(request):
        raise ValueError(f"can't use {request.secrets}")

    watch = Watch(log)
    async with road(Plugin(**{rpc.attribute: never}), metrics=watch.metrics) as driver:
        errors = await watch.call(driver, rpc, rpc.request_type(secrets=SECRETS), Call(0.5))
    assert errors[0].code == Code.UNKNOWN
    assert [canary for canary in CANARIES if canary in watch.seen] == []


@each_row("rpc", WITH_CONTEXT, ids=name_of)
@each_row("told", [f"401 for {TOKEN}", f"bad context {TOKENS}"], ids=["one-token", "all-tokens"])
async def test_tokens_in_volume_context_stay_hidden(road, log, rpc, told):
    watch = Watch(log)
    request = rpc.request_type(volume_context={TOKENS_KEY: TOKENS, "server": "nfs.example.com"})
    async with road(
        Plugin(**{rpc.attribute: failing(DriverError(Code.UNAUTHENTICATED, told))}), metrics=watch.metrics
    ) as driver:
        await watch.call(driver, rpc, request, CALL)
    assert "nfs.example.com" in watch.seen
    assert TOKEN not in watch.seen
