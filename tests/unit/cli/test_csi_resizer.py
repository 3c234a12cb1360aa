"""csi-resizer as a program: its flags, how it begins, who leads, and how it ends."""

from __future__ import annotations

import contextlib

import pytest

from mooring.api.coordination import LEASES
from mooring.api.core import EVENTS
from mooring.api.names import sanitised
from mooring.base.errors import ConfigError
from mooring.base.flags import flags_of, parse
from mooring.base.metrics import Metrics
from mooring.base.randomness import Random
from mooring.cli.csi_resizer import COMMAND, ResizerFlags, check, sidecar
from mooring.cli.process import Machine, Setup
from mooring.cli.sidecar import SidecarLife
from mooring.cli.tables import SidecarFlags
from mooring.csi.errors import DriverError
from mooring.kube.errors import ServerError
from mooring.sidecars.resizer import names
from mooring.sidecars.resizer.options import ResizerOptions
from mooring.wire.grpc.codes import Code
from tests.support.killing import Life, MortalCluster
from tests.support.resizing import EXPAND, MODIFY, NODE_PENDING, VACS, ResizerWorld, ResizingDriver
from tests.support.rows import each_row
from tests.support.scripted_driver import RPC
from tests.support.virtual_loop import in_virtual_time
from tests.unit.cli.sidecar_life import PortsInProcess

pytestmark = in_virtual_time

# Names and defaults must stay external-resizer 2.2's.
DEFAULTS = {
    "extra-modify-metadata": False,
    "handle-volume-inuse-error": True,
    "master": "",
    "resync-period": 600.0,
    "retry-interval-max": 300.0,
    "retry-interval-start": 1.0,
    "timeout": 10.0,
    "workers": 10,
}
OURS = {"max-grpc-log-length": -1}
GATES = {
    "AnnotateFsResize": False,
    "RecoverVolumeExpansionFailure": True,
    "ReleaseLeaderElectionOnExit": False,
    "VolumeAttributesClass": True,
}
ASK = "serves volumeattributesclasses"
LEASE = "external-resizer-csi-test"
ELECTION = (
    "--leader-election",
    "--leader-election-lease-duration=4s",
    "--leader-election-renew-deadline=3s",
    "--leader-election-retry-period=1s",
)


def test_flags_gates_and_defaults_are_upstreams():
    shared = {name: row.default for name, row in flags_of(SidecarFlags).items()}
    assert {**shared, **DEFAULTS, **OURS} == {name: row.default for name, row in flags_of(ResizerFlags).items()}
    assert {name: gate.default for name, gate in COMMAND.gates.items()} == GATES


def a_setup(*words):
    parsed = parse(ResizerFlags, words)
    check(parsed)
    return Setup(
        "x",
        parsed.flags,
        parsed.given,
        {name: gate.default for name, gate in COMMAND.gates.items()} | parsed.flags.feature_gates,
    )


def test_flags_reach_the_controllers():
    assert ResizerOptions() == a_setup().options(ResizerOptions)
    changed = a_setup(
        *("--timeout=3s", "--workers=4", "--resync-period=7m", "--retry-interval-start=2s", "--retry-interval-max=7s"),
        *("--handle-volume-inuse-error=false", "--extra-modify-metadata"),
        "--feature-gates=RecoverVolumeExpansionFailure=false,AnnotateFsResize=true,VolumeAttributesClass=false",
    )
    assert ResizerOptions(3.0, 4, 420.0, 2.0, 7.0, False, True, False, True, False) == changed.options(ResizerOptions)


@each_row(
    "words",
    ["--workers=0", "--timeout=0s", "--retry-interval-start=0s", "--retry-interval-max=-1s", "--resync-period=-1s"],
)
def test_what_can_not_be_used_is_said_at_the_start(words):
    with pytest.raises(ConfigError, match=words.removeprefix("--").partition("=")[0]):
        a_setup(words)


class Living(ResizerWorld):
    """Whole processes: flags, driver, work."""

    @contextlib.asynccontextmanager
    async def living(self, *words, host="host", process=None):
        setup, machine = a_setup(*words), Machine(environ={"POD_NAMESPACE": "default"}, host_name=lambda: host)
        cluster = self.cluster if process is None else MortalCluster(self.cluster, process)
        self.ports, metrics = PortsInProcess(self.driver, self.clock, cluster=cluster), Metrics()
        life = SidecarLife(
            sidecar(setup), setup, machine, self.ports, clock=self.clock, randomness=Random(3), metrics=metrics
        )
        self.metrics = metrics
        async with self.running(life.run()):
            yield life

    async def held_by(self, host):
        await self.shown(LEASES, LEASE, lambda lease: (lease["spec"].get("holderIdentity") or "").startswith(host))


async def refused(driver):
    world = Living(driver)
    await world.volume(2, 1)
    with pytest.raises(ConfigError) as refusal:
        async with world.living():
            await world.settle(5)
    assert [ASK] == world.story
    return str(refusal.value)


@each_row("able", [(), (RPC.CREATE_DELETE_VOLUME, RPC.PUBLISH_UNPUBLISH_VOLUME)])
async def test_R29_a_driver_that_gives_no_work_ends_the_program(able):
    assert "CSI driver does not support resize nor modify" == await refused(ResizingDriver(able))
    assert 1 == ConfigError("").exit_code


class WithoutNodes(ResizingDriver):
    code = Code.UNIMPLEMENTED

    async def node_get_capabilities(self, request):
        raise DriverError(self.code, "no")


async def test_R29_a_socket_without_a_node_service_is_no_driver_for_nodes():
    assert "CSI driver does not support resize nor modify" == await refused(WithoutNodes(()))


async def test_a_driver_that_fails_to_tell_of_its_nodes_ends_the_program():
    driver = WithoutNodes(())
    driver.code = Code.INTERNAL
    with pytest.raises(DriverError, match="Internal"):
        async with Living(driver).living():
            await Living(driver).settle(5)


async def test_R30_a_driver_without_a_controller_service_ends_the_program():
    driver = ResizingDriver(on_node=True)
    driver.plugin = ()
    assert "no controller service" in await refused(driver)


async def test_R29_a_driver_that_grows_volumes_on_their_nodes_is_served():
    world = Living(ResizingDriver((), on_node=True))
    await world.volume(2, 1)
    async with world.living():
        await world.state_is(1, 2, NODE_PENDING, 2)


@each_row(
    ("is_served", "error", "words", "is_modified"),
    [
        pytest.param(False, None, [], False, id="M12"),
        pytest.param(True, ServerError("down"), [], True, id="M12-nobody-can-tell"),
        pytest.param(True, None, ["--feature-gates=VolumeAttributesClass=false"], False, id="M12-gate-off"),
        pytest.param(True, None, [], True, id="the-kind-is-there"),
    ],
)
async def test_without_the_kind_nothing_is_modified_and_volumes_grow(is_served, error, words, is_modified, caplog):
    world = Living()
    await world.make_class("b")
    await world.volume(2, 1, vac="b")
    if not is_served:
        world.store.kinds.remove([(VACS.group, VACS.version, VACS.plural)])
    if error is not None:
        world.cluster.refuse(ASK, times=None, error=error)
    async with world.living(*words):
        await world.state_is(1, 2, NODE_PENDING, 2)
        await world.settle(20)
    assert is_modified is bool(world.driver.made(MODIFY))
    assert (ASK in world.story) is (words == [])
    assert ("could not ask for VolumeAttributesClasses" in caplog.text) is (error is not None)


async def test_both_queues_count_under_one_name():
    world = Living()
    await world.make_class("b")
    await world.volume(2, 1, vac="b")
    gates = [world.driver.gate(method) for method in (EXPAND, MODIFY)]
    async with world.living():
        await world.called()
        assert _of_queue(world, "workqueue_adds_total") >= 2
        await world.settle(5)
        assert _of_queue(world, "workqueue_longest_running_processor_seconds") > 1
        for gate in gates:
            gate.set()
        await world.state_is(1, 2, NODE_PENDING, 2)


def _of_queue(world, name):
    return world.metrics.registry.get_sample_value(name, {"name": "csi.test-pvc"}) or 0


async def test_events_are_of_the_drivers_resizer():
    world = Living()
    await world.volume(2, 1)
    async with world.living():
        await world.event("FileSystemResizeRequired")
        (source,) = {
            event["source"]["component"]
            for event in await world.list(EVENTS)
            if event["involvedObject"]["name"] == "claim"
        }
    assert "external-resizer csi.test" == source


@each_row(("driver", "lock"), [("a.b_c", "external-resizer-a-b-c"), ("csi-", "external-resizer-csi-X")])
def test_the_lease_has_upstreams_name(driver, lock):
    assert lock == sanitised(sidecar(a_setup()).lock_prefix + driver)


async def test_L1_another_replica_takes_over_from_one_that_died():
    world = Living(ResizingDriver(node_step=False))
    await world.volume(2, 1)
    gate, process = world.driver.gate(EXPAND), Life()
    async with world.living(*ELECTION, host="one", process=process):
        await world.held_by("one")
        await world.called()
        async with world.living(*ELECTION, host="two"):
            await world.settle(5)
            assert [2] == world.asked
            process.kill()
            await world.held_by("two")
            gate.set()
            await world.state_is(2, 2, None, 2)
            await world.settle()
    assert [2, 2] == world.asked


async def test_L2_the_end_waits_for_the_call_and_releases_the_lease():
    world = Living(ResizingDriver(node_step=False))
    await world.volume(2, 1)
    await world.volume(2, 1, name="late", phase="Pending")
    gate = world.driver.gate(EXPAND)
    async with world.living(*ELECTION) as life:
        await world.called()
        life.end()
        await world.settle(0.5)
        await world.set_status({"phase": "Bound"}, "late")
        await world.settle(1)
        assert "" != (await world.get(LEASES, LEASE))["spec"]["holderIdentity"]
        gate.set()
        await world.state_is(2, 2, None, 2)
        await world.settle(5)
        assert ([2], "") == (world.asked, (await world.get(LEASES, LEASE))["spec"]["holderIdentity"])
        assert {} == await world.conditions()
        assert names.NOT_REQUIRED in (await world.claim())["metadata"]["annotations"]


async def test_a_driver_that_comes_back_is_carried_on_with():
    """Differs from external-resizer, which exits; a driver that was replaced ends this process, too (test_life.py)."""
    world = Living()
    await world.volume(1, 1)
    async with world.living():
        await world.settle(5)
        world.ports.connection.lose()
        await world.settle()
        await world.ask(2)
        await world.settle(30)
        assert [] == world.driver.made(EXPAND)
        world.ports.connection.come_back()
        await world.state_is(1, 2, NODE_PENDING, 2, wait_s=2)


async def test_M12_without_classes_a_driver_that_only_modifies_gives_no_work_and_no_reason_to_end():
    world = Living(ResizingDriver((RPC.MODIFY_VOLUME,)))
    async with world.living("--feature-gates=VolumeAttributesClass=false", *ELECTION) as life:
        await world.held_by("host")
        await world.settle(30)  # an end before its time would be raised here
        life.end()
        await world.settle(1)
        assert ([], "") == (world.driver.made(MODIFY), (await world.get(LEASES, LEASE))["spec"]["holderIdentity"])
