"""csi-provisioner as a program: its flags, what it loads, how it begins and ends."""

from __future__ import annotations

import asyncio
import contextlib
import sys

import pytest

from mooring.api.coordination import LEASES
from mooring.api.storage import VOLUME_ATTRIBUTES_CLASSES
from mooring.base.errors import ConfigError
from mooring.base.flags import flags_of, parse
from mooring.base.randomness import Random
from mooring.cli.csi_provisioner import COMMAND, ProvisionerFlags, check, run, sidecar
from mooring.cli.csi_provisioner import options as provisioner_options
from mooring.cli.process import VERSION, Machine, Setup
from mooring.cli.sidecar import SidecarLife
from mooring.cli.tables import SidecarFlags
from mooring.csi.proto import csi_pb2 as csi
from mooring.kube.errors import ServerError
from tests.support.provisioning import CREATE, AnsweringDriver, ProvisioningWorld
from tests.support.rows import each_row
from tests.support.scripted_driver import RPC
from tests.support.virtual_loop import in_virtual_time
from tests.unit.cli.sidecar_life import PortsInProcess

pytestmark = in_virtual_time
PROGRAM = [sys.executable, "-m", "mooring.cli.csi_provisioner"]

# Names and defaults must stay external-provisioner 6.3's.
DEFAULTS = {
    "capacity-for-immediate-binding": False,
    "capacity-ownerref-level": 1,
    "capacity-poll-interval": 60.0,
    "capacity-threads": 1,
    "cloning-protection-threads": 1,
    "controller-publish-readonly": False,
    "default-fstype": "",
    "enable-capacity": False,
    "enable-pprof": False,
    "extra-create-metadata": False,
    "immediate-topology": True,
    "kube-api-capacity-burst": 5,
    "kube-api-capacity-qps": 1.0,
    "master": "",
    "node-deployment": False,
    "node-deployment-base-delay": 20.0,
    "node-deployment-immediate-binding": True,
    "node-deployment-max-delay": 60.0,
    "prevent-volume-mode-conversion": True,
    "retry-interval-max": 300.0,
    "retry-interval-start": 1.0,
    "snapshot-orphan-sweep-interval": 300.0,
    "strict-topology": False,
    "timeout": 10.0,
    "volume-name-prefix": "pvc",
    "volume-name-uuid-length": -1,
    "worker-threads": 100,
}
OURS = {"max-grpc-log-length": -1}


def test_flags_and_defaults_are_upstreams():
    shared = {name: row.default for name, row in flags_of(SidecarFlags).items()}
    assert {**shared, **DEFAULTS, **OURS} == {name: row.default for name, row in flags_of(ProvisionerFlags).items()}


def a_setup(*words):
    parsed = parse(ProvisionerFlags, words, COMMAND.removed, COMMAND.spellings)
    check(parsed)
    return Setup(
        "x",
        parsed.flags,
        parsed.given,
        {name: gate.default for name, gate in COMMAND.gates.items()} | parsed.flags.feature_gates,
    )


def options(*words, **environ):
    return provisioner_options(a_setup(*words), Machine(environ=environ))


def test_flags_reach_the_controller():
    changed = options(
        "--timeout=3s",
        "--worker-threads=4",
        "--retry-interval-start=2s",
        "--retry-interval-max=7s",
        "--volume-name-prefix=vol",
        "--volume-name-uuid-length=8",
        "--default-fstype=xfs",
        "--extra-create-metadata",
        "--strict-topology",
        "--immediate-topology=false",
        "--controller-publish-readonly",
        "--prevent-volume-mode-conversion=false",
        "--cloning-protection-threads=5",
        "--snapshot-orphan-sweep-interval=9s",
        "--feature-gates=CrossNamespaceVolumeDataSource=true,VolumeAttributesClass=false",
    )
    rules = changed.rules
    assert (3.0, 4, 2.0, 7.0, 5, 9.0) == (
        changed.timeout_s,
        changed.worker_threads,
        changed.retry_interval_start_s,
        changed.retry_interval_max_s,
        changed.cloning_protection_threads,
        changed.snapshot_orphan_sweep_interval_s,
    )
    assert ("vol", 8, "xfs") == (rules.volume_name_prefix, rules.volume_name_uuid_length, rules.default_fstype)
    switches = (
        rules.extra_create_metadata,
        rules.strict_topology,
        rules.controller_publish_readonly,
        rules.cross_namespace_data_source,
    )
    assert (True, True, True, True) == switches
    assert (False, False, False) == (
        rules.immediate_topology,
        rules.prevent_volume_mode_conversion,
        rules.volume_attributes_class,
    )
    assert (None, None) == (changed.capacity, changed.node)


def test_capacity_and_nodes_are_told_by_the_environment():
    changed = options("--enable-capacity", "--node-deployment", NAMESPACE="ns", POD_NAME="pod", NODE_NAME="n1")
    assert changed.capacity is not None
    assert changed.node is not None
    assert ("ns", "pod", "n1") == (changed.capacity.namespace, changed.capacity.pod_name, changed.node.node_name)


@each_row(
    ("environ", "namespace"),
    [
        ({"POD_NAMESPACE": "pod's"}, "pod's"),
        ({"NAMESPACE": "named", "POD_NAMESPACE": "pod's"}, "named"),
        ({}, "mounted"),
    ],
)
def test_27a3_capacity_is_published_where_the_pod_is_by_whichever_name_it_learns_that(environ, namespace, tmp_path):
    """The README of external-provisioner says POD_NAMESPACE, its program reads NAMESPACE alone."""
    (tmp_path / "namespace").write_text("mounted\n")
    machine = Machine(environ={"POD_NAME": "pod", **environ}, service_account=tmp_path)
    capacity = provisioner_options(a_setup("--enable-capacity"), machine).capacity
    assert capacity is not None
    assert namespace == capacity.namespace


def test_27a3_outside_of_a_pod_both_variables_are_named():
    with pytest.raises(ConfigError, match=r"POD_NAMESPACE \(or NAMESPACE\) must name the pod's namespace"):
        options("--enable-capacity", POD_NAME="pod")


@each_row(
    ("words", "enabled", "immediate"),
    [
        (["--capacity-controller-deployment-mode=central"], True, False),
        (["--enable-capacity=central"], True, False),
        (["--enable-capacity=central", "--enable-capacity=immediate-binding"], True, True),
        (["--enable-capacity=immediate-binding"], False, True),
        (["--enable-capacity=false"], False, False),
    ],
)
def test_27a3_capacity_may_be_asked_for_in_the_words_of_old_manifests(words, enabled, immediate):
    flags = a_setup(*words).flags
    assert (enabled, immediate) == (flags.enable_capacity, flags.for_immediate_binding)


def test_27a3_an_old_spelling_is_told_with_the_one_of_today(capsys):
    pod = Machine(environ={"POD_NAMESPACE": "a", "POD_NAME": "b"})
    assert 1 == run(["--enable-capacity=central", "--kubeconfig=/nonexistent/file"], "x", pod)
    assert 'flag="--enable-capacity=central" now="--enable-capacity"' in capsys.readouterr().err


@each_row(
    ("words", "why"),
    [
        (["--volume-name-uuid-length=33"], "volume-name-uuid-length"),
        (["--volume-name-uuid-length=0"], "volume-name-uuid-length"),
        (["--worker-threads=0"], "worker-threads"),
        (["--timeout=0s"], "timeout"),
        (["--snapshot-orphan-sweep-interval=-1s"], "snapshot-orphan-sweep-interval"),
        (["--capacity-ownerref-level=-2"], "capacity-ownerref-level"),
        (["--enable-capacity"], "NAMESPACE"),
        (["--node-deployment"], "NODE_NAME"),
    ],
)
def test_what_can_not_be_used_is_said_at_the_start(words, why):
    with pytest.raises(ConfigError, match=why):
        options(*words)


@each_row("environ", [{}, {"NODE_NAME": ""}])
def test_the_nodes_name_is_missed_even_before_the_version_is_told(environ, capsys):
    words = ["--node-deployment", "--version"]
    assert 1 == run(words, "x", Machine(environ=environ))
    assert 0 == run(words, "x", Machine(environ={"NODE_NAME": "n1"}))
    assert f"x {VERSION}\n" == capsys.readouterr().out


class Living(ProvisioningWorld):
    """The whole process in one: flags, driver, work."""

    @contextlib.asynccontextmanager
    async def living(self, *words):
        setup, machine = a_setup(*words), Machine(environ={"POD_NAMESPACE": "default"}, host_name=lambda: "host")
        self.ports = PortsInProcess(self.driver, self.clock, cluster=self.cluster)
        life = SidecarLife(
            sidecar(setup, machine),
            setup,
            machine,
            self.ports,
            clock=self.clock,
            randomness=Random(3),
            metrics=self.metrics,
        )
        async with self.running(life.run()):
            yield life


ASK, GET = "serves volumeattributesclasses", "get volumeattributesclasses"


@each_row(
    ("is_served", "error", "words", "asked", "is_made"),
    [
        pytest.param(False, None, [], [ASK], True, id="no such kind"),
        pytest.param(False, None, ["--feature-gates=VolumeAttributesClass=true"], [GET], False, id="the gate is set"),
        pytest.param(True, ServerError("down"), [], [ASK, GET], False, id="nobody can tell"),
        pytest.param(True, None, [], [ASK, GET], False, id="the kind is there"),
    ],
)
async def test_without_the_kind_attributes_classes_are_passed_over(is_served, error, words, asked, is_made):
    """Only a claim that names one has it looked up: upstream's RBAC manifest gives no right to that."""
    world = Living(AnsweringDriver(controller=(RPC.MODIFY_VOLUME,)))
    await world.base(volumeAttributesClassName="gold")
    if not is_served:
        world.store.kinds.remove(
            [(VOLUME_ATTRIBUTES_CLASSES.group, VOLUME_ATTRIBUTES_CLASSES.version, VOLUME_ATTRIBUTES_CLASSES.plural)]
        )
    if error is not None:
        world.cluster.refuse(ASK, times=None, error=error)
    async with world.living(*words):
        if is_made:
            await world.provisioned()
            assert {} == dict(world.request.mutable_parameters)
        else:
            await world.failed('"gold" not found' if is_served else "the server could not find the requested resource")
    assert asked == list(dict.fromkeys(step for step in world.story if step in (ASK, GET)))


class LateDriver(AnsweringDriver):
    """Not ready at first."""

    def __init__(self):
        super().__init__()
        self.probed_s = []

    async def probe(self, request):
        self.probed_s.append(asyncio.get_running_loop().time())
        return csi.ProbeResponse(ready={"value": len(self.probed_s) > 2})


async def test_P93_a_driver_that_gets_ready_late_is_waited_for():
    driver = LateDriver()
    world = Living(driver)
    await world.base()
    async with world.living():
        await world.provisioned()
    assert [0, 1, 2] == [round(at - driver.probed_s[0], 3) for at in driver.probed_s]


async def test_P92_an_unchanged_driver_that_comes_back_is_carried_on_with():
    """Differs from upstream, which exits; a driver that was replaced ends this process, too (test_life.py)."""
    world = Living()
    await world.base()
    async with world.living():
        await world.provisioned()
        world.ports.connection.lose()
        await world.make_claim("second")
        await world.settle(5)
        assert 1 == len(world.driver.made(CREATE))
        world.ports.connection.come_back()
        await world.provisioned("second", wait_s=2)


async def test_P91_the_end_waits_for_the_call_and_stores_its_volume():
    world = Living()
    await world.base()
    gate = world.driver.gate(CREATE)
    async with world.living("--leader-election") as life:
        await world.calls(1)
        life.end()
        await world.settle(1)
        gate.set()
        await world.settle(5)
        assert 1 == len(world.driver.volumes)
        await world.provisioned()
        lease = await world.get(LEASES, "csi-test", "default")
        assert "" == lease["spec"]["holderIdentity"], "the next leader need not wait"
