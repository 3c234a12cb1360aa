"""One course of workloads, typed with the real kubectl, and the objects that it leads to, without what differs from run
to run.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from mooring.api.core import EVENTS
from mooring.base.clock import LoopClock
from mooring.base.randomness import Random
from mooring.kube.client.http import HttpCluster
from mooring.kube.client.kubeconfig import load
from mooring.kube.cluster import Cluster
from tests.support.builders import Json, a_claim, a_job, a_template, a_workload
from tests.support.cluster_world import ClusterUser
from tests.support.eager_node import EagerNode
from tests.support.real import kubectl

WAIT_S = 60.0
SHOWN = "deployments,replicasets,statefulsets,controllerrevisions,jobs,pods,pvc"
_TIMES = (
    "creationTimestamp",
    "lastTransitionTime",
    "lastUpdateTime",
    "lastProbeTime",
    "startTime",
    "completionTime",
    "deletionTimestamp",
)
_NOT_COMPARED = ("uid", "resourceVersion", "managedFields", "selfLink", *_TIMES)
_HASHED = re.compile(r"\b(web|sts)-[bcdfghjklmnpqrstvwxz2456789]{8,10}\b")
_SUFFIX = re.compile(r"\b(web-HASH|sum|bad|late)-[a-z0-9]{5}\b")
_UID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def a_set_with_claims(replicas: int = 3) -> Json:
    claim = {"metadata": {"name": "data"}, "spec": a_claim(sc="none-such")["spec"]}
    policy = {"whenDeleted": "Delete", "whenScaled": "Delete"}
    labels = {"app": "sts"}
    return a_workload(
        "StatefulSet",
        "sts",
        replicas=replicas,
        template=a_template(labels=labels),
        selector={"matchLabels": labels},
        volumeClaimTemplates=[claim],
        persistentVolumeClaimRetentionPolicy=policy,
    )


class Course:
    """told: the snapshots so far, by the step that they follow."""

    def __init__(self, kubeconfig: Path, cluster: Cluster) -> None:
        self._kubeconfig, self.user = kubeconfig, ClusterUser(cluster, wait_s=WAIT_S, look_s=0.1)
        self.node = EagerNode(self.user, LoopClock(), ready_s=0.0, end_s=0.0, look_s=0.1)
        self.node.ends = {"sum": "Succeeded", "bad": "Failed"}
        self.told: dict[str, Any] = {}

    async def kubectl(self, line: str, stdin: Json | None = None) -> str:
        return await asyncio.to_thread(
            kubectl, self._kubeconfig, *line.split(), stdin=json.dumps(stdin) if stdin else ""
        )

    async def run(self) -> None:
        """From the first object to the last."""
        await self._deployment()
        await self._deployment_in_other_ways()
        await self._stateful_set()
        await self._job()
        await self._other_jobs()
        await self._deletions()
        await self.kubectl("delete job/sum job/bad statefulset/sts")
        await self.until(
            "delete pvc --all --wait=false", lambda items: {one["kind"] for one in items} <= {"PersistentVolumeClaim"}
        )

    async def _deletions(self) -> None:
        """An owner goes in each way, and comes again."""
        retained = '{"spec":{"persistentVolumeClaimRetentionPolicy":{"whenDeleted":"Retain","whenScaled":"Retain"}}}'
        await self.kubectl(f"patch statefulset sts -p {retained}")
        await self._tell("set that retains its claims")
        await self.kubectl("delete statefulset sts --cascade=orphan")
        await self._tell("set gone, its pods left")
        await self.kubectl("apply -f -", a_set_with_claims(2))  # nobody lets the third one's claim go
        await self._rolled("statefulset/sts", "set made again")
        await self.kubectl("delete deployment web --cascade=orphan")
        await self._tell("deployment gone, its pods left")
        await self.kubectl(
            "apply -f -", a_workload("Deployment", replicas=2, template=a_template(image="example.com/image:4"))
        )
        await self._rolled("deployment/web", "deployment made again")
        await self.kubectl("delete deployment web --cascade=foreground --timeout=60s")
        await self._tell("deployment gone with all it had")
        await self.kubectl("create -f -", a_job("late", completions=2, parallelism=2, activeDeadlineSeconds=3))
        await self.kubectl("wait --for=condition=Failed job/late --timeout=60s")
        await self._tell("job over its deadline")
        await self.kubectl("delete job late --cascade=foreground --timeout=60s")
        await self.kubectl("create -f -", a_job("late", completions=2, parallelism=2, podReplacementPolicy="Failed"))
        await self.kubectl("wait --for=jsonpath={.status.ready}=2 job/late --timeout=60s")
        await self.kubectl("delete job late --cascade=foreground --timeout=60s")
        await self._tell("job gone with its pods")

    async def _deployment(self) -> None:
        await self.kubectl("apply -f -", a_workload("Deployment", replicas=3))
        await self._rolled("deployment/web", "made")
        await self.kubectl("set image deployment/web c=example.com/image:2")
        await self._rolled("deployment/web", "another image")
        await self.kubectl("scale deployment/web --replicas=2")
        await self._rolled("deployment/web", "scaled")
        await self.kubectl("rollout undo deployment/web")
        await self._rolled("deployment/web", "undone")

    async def _deployment_in_other_ways(self) -> None:
        await self.kubectl('patch deployment web -p {"spec":{"minReadySeconds":1}}')
        await self._rolled("deployment/web", "another minimum of readiness")
        await self.kubectl("rollout pause deployment/web")
        await self.kubectl("set image deployment/web c=example.com/image:3")
        await self.kubectl("scale deployment/web --replicas=4")
        await self._tell("paused, with another image and size")
        await self.kubectl("rollout resume deployment/web")
        await self._rolled("deployment/web", "resumed")
        await self.kubectl('patch deployment web -p {"spec":{"strategy":{"type":"Recreate","rollingUpdate":null}}}')
        await self.kubectl('patch deployment web -p {"spec":{"revisionHistoryLimit":1}}')
        await self.kubectl("set image deployment/web c=example.com/image:4")
        await self._rolled("deployment/web", "recreated")

    async def _stateful_set(self) -> None:
        await self.kubectl("apply -f -", a_set_with_claims())
        await self._rolled("statefulset/sts", "set made")
        await self.kubectl("set image statefulset/sts c=example.com/image:2")
        await self._rolled("statefulset/sts", "set with another image")
        await self.kubectl("scale statefulset/sts --replicas=2")
        await self.until("get pods", lambda items: "sts-2" not in {one["metadata"]["name"] for one in items})
        await self._rolled("statefulset/sts", "set scaled")

    async def _job(self) -> None:
        await self.kubectl("create -f -", a_job(completions=3, parallelism=2))
        await self.kubectl("wait --for=condition=Complete job/sum --timeout=60s")
        await self._tell("job done")

    async def _other_jobs(self) -> None:
        await self.kubectl("create -f -", a_job("bad", backoffLimit=0))
        await self.kubectl("wait --for=condition=Failed job/bad --timeout=60s")
        await self._tell("job failed")
        await self.kubectl("create -f -", a_job("late", completions=3, parallelism=3, backoffLimit=1))
        await self.kubectl("wait --for=jsonpath={.status.ready}=3 job/late --timeout=60s")
        await self.kubectl('patch job late -p {"spec":{"suspend":true}}')
        await self.kubectl("wait --for=condition=Suspended job/late --timeout=60s")
        await self._tell("job suspended")
        await self.kubectl('patch job late -p {"spec":{"suspend":false,"parallelism":2}}')
        await self.kubectl("wait --for=jsonpath={.status.ready}=2 job/late --timeout=60s")
        await self.kubectl('patch job late -p {"spec":{"parallelism":1}}')
        await self._tell("job with fewer pods")
        await self.kubectl("delete job late --cascade=orphan")
        await self._tell("job gone, its pod left")
        await self.kubectl("delete pods -l job-name=late")

    async def _rolled(self, what: str, step: str) -> None:
        await self.kubectl(f"rollout status {what} --timeout=60s")
        await self._tell(step)

    async def _tell(self, step: str) -> None:
        """Once nothing changes any more."""
        before: Json | None = None

        async def is_still() -> bool:
            nonlocal before
            now = await self._snapshot()
            still, before = now == before, now
            await asyncio.sleep(0.7)
            return still

        await self.user.until(is_still, WAIT_S, f"nothing changes after: {step}")
        self.told[step] = before

    async def _snapshot(self) -> Json:
        items = json.loads(await self.kubectl(f"get {SHOWN} -o json"))["items"]
        objects = sorted((normalised(one) for one in items), key=lambda one: json.dumps(one, sort_keys=True))
        rows = await self.kubectl("get deployments,replicasets,statefulsets,jobs -o wide --no-headers")
        return {"objects": objects, "rows": sorted(_row(line) for line in rows.splitlines())}

    async def until(self, line: str, check: Callable[[list[Json]], bool]) -> None:
        """Types the line, and waits until the objects are so."""
        await self.kubectl(line)

        async def holds() -> bool:
            return check(json.loads(await self.kubectl(f"get {SHOWN} -o json"))["items"])

        await self.user.until(holds, WAIT_S, line)

    async def events(self) -> set[tuple[str, str, str]]:
        """What was told, each once."""
        found = await self.user.list(EVENTS)
        kinds = ("Deployment", "ReplicaSet", "StatefulSet", "Job")
        about = [one for one in found if one["involvedObject"]["kind"] in kinds]
        return {
            (one["source"]["component"], one["reason"], _without_steps(_anonymous(one["message"]))) for one in about
        }


def _row(line: str) -> str:
    """Without times, and without the widths of the columns: hashes are not all of one length."""
    return _anonymous(re.sub(r" +", " ", re.sub(r"\s\d+m?\d*s\b", " TIME", line)))


def _without_steps(message: str) -> str:
    """In how many steps a rolling update goes depends on how many pods become ready at once, with the real controllers,
    too.
    """
    return re.sub(r"from \d+ to \d+", "from SOME to OTHERS", message)


def normalised(obj: Json) -> Json:
    """Names that chance has chosen are all the same; a revision's hash goes by the place that it stands in."""
    text = _anonymous(json.dumps(_pruned(obj), sort_keys=True))
    text = re.sub(r'("pod-template-hash"|"controller.kubernetes.io/hash"): "[a-z0-9]+"', r'\1: "HASH"', text)
    found: Json = json.loads(text)
    if obj["kind"] == "ReplicaSet":  # each of those steps is a generation
        found["is observed"] = found["metadata"].pop("generation") == found["status"].pop("observedGeneration", None)
    found["is going"] = bool(obj["metadata"].get("deletionTimestamp"))
    return found


def _anonymous(text: str) -> str:
    text = _HASHED.sub(r"\1-HASH", text)
    text = re.sub(r"pod-template-hash=[a-z0-9]+", "pod-template-hash=HASH", text)
    return _UID.sub("UID", _SUFFIX.sub(r"\1-SUFFIX", text))


def _pruned(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _pruned(part) for key, part in value.items() if key not in _NOT_COMPARED and part is not None}
    return [_pruned(part) for part in value] if isinstance(value, list) else value


@contextlib.asynccontextmanager
async def course_on(kubeconfig: Path) -> AsyncIterator[tuple[Course, Cluster]]:
    """With its node running. The cluster is for the part under test."""
    async with HttpCluster(
        load(str(kubeconfig), {}), clock=LoopClock(), randomness=Random(), user_agent="tests"
    ) as cluster:
        course = Course(kubeconfig, cluster)
        running = asyncio.create_task(course.node.run(), name="node")
        try:
            yield course, cluster
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
