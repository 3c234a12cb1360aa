"""The binder's metrics, under the names and labels of kube-controller-manager and kube-scheduler."""

from __future__ import annotations

import asyncio

from mooring.kube.errors import ServerError
from tests.support.binding import PV, PVC, BinderWorld, binding
from tests.support.builders import a_claim
from tests.support.virtual_loop import in_virtual_time

pytestmark = in_virtual_time
PUT_PVC = "update persistentvolumeclaims"


async def test_metrics_count_claims_and_volumes() -> None:
    async with binding() as (ours, world):
        await world.available()
        await world.create(a_claim("waits", sc="none"))
        await world.make_claim()
        await world.bound(world("claim"), world("pv"))
        page = ours.metrics.render().decode()
    sc = world("sc")
    assert f'pv_collector_bound_pv_count{{storage_class="{sc}"}} 1.0' in page
    assert (
        f'pv_collector_bound_pvc_count{{namespace="default",storage_class="{sc}",volume_attributes_class=""}} 1.0'
        in page
    )
    assert (
        'pv_collector_unbound_pvc_count{namespace="default",storage_class="none",volume_attributes_class=""} 1.0'
        in page
    )
    assert 'pv_collector_total_pv_count{plugin_name="kubernetes.io/csi:csi.test",volume_mode="Filesystem"} 1.0' in page


async def test_metrics_count_failures_under_both_names() -> None:
    ours = BinderWorld()
    ours.cluster.refuse(PUT_PVC)
    async with ours.binding() as world:
        await world.make_class()
        await world.make_claim()
        await world.asked(world("claim"))
        page = ours.metrics.render().decode()
    series = f'operation_name="provision",plugin_name="{world.driver}"'
    assert f"\nvolume_operation_errors_total{{{series}}} 1.0" in page
    assert f"\nvolume_operation_total_errors{{{series}}} 1.0" in page
    assert "volume_operation_total_errors_total" not in page


async def test_metrics_count_attempts_to_schedule() -> None:
    ours = BinderWorld()
    ours.cluster.refuse("create pods/binding", error=ServerError("timed out", code=500))
    async with ours.binding() as world:
        await world.make_pod()
        await world.rejected(world("pod"), "no nodes available")
        node = await world.make_node()
        await world.scheduled(world("pod"), node)
        await world.make_class(wffc=True)
        await world.make_claim()
        await world.make_pod(world("claim"), base="second")
        await world.selected(world("claim"), node)
        ours.cluster.refuse(PUT_PVC)
        await world.make_claim("other")
        third = await world.make_pod(world("other"), base="third")
        await world.told(third, "Warning", "FailedScheduling", 'running PreBind plugin "VolumeBinding": not now')
        await world.patch(PVC, world("claim"), {"metadata": {"annotations": None}})
        await world.rejected(world("second"), "selectedNode annotation reset")
        page = ours.metrics.render().decode()

    def attempts(result: str) -> float:
        series = f'scheduler_schedule_attempts_total{{profile="default-scheduler",result="{result}"}} '
        return next(float(line.removeprefix(series)) for line in page.splitlines() if line.startswith(series))

    assert attempts("unschedulable") >= 1
    assert (1, 3) == (attempts("scheduled"), attempts("error")), "a refused bind, a refused write, a choice taken back"


async def test_metrics_time_provisioning_and_deletion() -> None:
    async with binding() as (ours, world):
        await world.make_class()
        await world.make_claim()
        claim = await world.asked(world("claim"))
        await asyncio.sleep(2)
        await world.provision(claim)
        await world.bound(world("claim"), world("pv"))
        await world.delete(PVC, world("claim"))
        await world.phase(PV, world("pv"), "Released")
        await world.remove(PV, world("pv"))
        await asyncio.sleep(0.1)
        page = ours.metrics.render().decode()
    for operation in ("provision", "delete"):
        series = f'operation_name="{operation}",plugin_name="{world.driver}"'
        assert f"volume_operation_total_seconds_count{{{series}}} 1.0" in page
    assert (
        f'volume_operation_total_seconds_bucket{{le="1",operation_name="provision",plugin_name="{world.driver}"}} 0.0'
        in page
    )
