"""The simulation of the whole plane: several controllers at once, on one API server, one storage and a few nodes that
die and return.

The attach/detach controller and the attacher are always the real ones, one or two of each. Node health is real where
the seed says so, and a hand plays it elsewhere. In three lives of ten the nodes run the real agent, on the machines,
disks and drivers of `tests/sim/node` and under its laws, too; elsewhere kubelets are scripts that keep to the handshake
of volumesInUse and volumesAttached. In one of five the real scheduler places the pods, and their volumes come from
claims; elsewhere pods are made for a node. In half of those lives users have workloads, too: their controllers are
real, and so is the garbage collector. The storage refuses nothing: that a volume for one node is published on one alone
is the plane's own duty.

| file                   | meaning |
| --- | --- |
| `plan.py`              | what a seed chooses: volumes, nodes, which programs run really, the share of each fault |
| `agent_plan.py`        | the same for agents, from a randomness of its own |
| `placing_plan.py`      | the same for the scheduler |
| `workload_plan.py`     | the same for workloads: a StatefulSet, a Deployment, a Job |
| `habit_plan.py`        | the same for what users do that they should not, and for slow kubelets |
| `life.py`              | what each program's life begins with |
| `line.py`              | a program's line to the API server; a write remembers what its program had been shown |
| `backend.py`           | the storage behind the driver |
| `kubelet.py`           | a node: its machine, and the kubelet as a script |
| `agent.py`             | a node with the real agent, and the plane's world as the nodes' simulation sees it |
| `placing.py`           | pods that get their node from the scheduler |
| `hands.py`             | the requests of everybody else, and node health where it does not run |
| `acts.py`              | what users, administrators and accidents do; each act can be left out |
| `user_acts.py`         | what users with habits do: imports, torn claims, backups, changed classes and rights |
| `user_hands.py`        | their requests |
| `node_acts.py`         | what happens to nodes and their Nodes |
| `program_acts.py`      | what happens to the programs, their clock and the driver |
| `workload_acts.py`     | what users do with workloads, and what happens to their controllers |
| `workload_hands.py`    | the workloads as users write them |
| `agent_acts.py`        | what happens to agents and their drivers, and what peace asks of pods for their sake |
| `stands.py`            | what stands in the API server, and since which version |
| `laws.py`              | I1 to I6 and I10 to I13, called at every step |
| `attachment_laws.py`   | of them, those about attachments |
| `node_laws.py`         | of them, those about Nodes and their reports |
| `mount_laws.py`        | of them, those about storage and mounts |
| `asked.py`             | laws about harm: what each process asked for and was told |
| `silence.py`           | a law: nobody waits in silence |
| `workload_laws.py`     | the laws of StatefulSets and their claims |
| `workload_counts.py`   | the laws that count pods: of ReplicaSets, Deployments, Jobs |
| `workload_stands.py`   | the states that workloads and their pods have had |
| `claim_laws.py`        | the laws of claims where users edit what binds them |
| `checkers.py`          | I7 to I9: what must be true once the faults have ended, and once all pods are gone |
| `workload_checkers.py` | the same of workloads |
| `agent_checkers.py`    | the same of agents: reports, drivers, mounts, disks |
| `bugs.py`              | parts of the plane replaced by worse ones, which the simulation must find |
| `harm_bugs.py`         | defects of the attach/detach controller that were once there, planted again |
| `mend_bugs.py`         | the same of node health, binder and writes |
| `workload_bugs.py`     | the same of workloads, and others |

In four lives of ten users have habits (`user_acts.py`): they import volumes by hand, give them to other claims, tear
claims and volumes away, restore backups, edit references, change classes and take rights away; nodes are stranded, made
anew, or heard for a moment. There kubelets may be slow, Nodes say since when they are silent or do not, and drivers
queue calls, hang for ever, or forget what they list. The API server has its habits in every life
(`tests/sim/habits.py`), but for being set back; processes die and do not stand still here.

A life: chaos; then the faults end and every pod that can run must come to run; then all pods are deleted, nothing may
be left anywhere, and nobody may write any more. `python -m tests.sim --part plane --seeds 1000`.

Where two controllers run at once, nothing but a lease keeps them apart, and either acts on what it has been shown: a
law then excuses what the other one has done since. That a volume is published on one node alone is not excused, unless
two attachers, too, run at once.
"""
