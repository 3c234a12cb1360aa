"""From any state: for each controller a small world is enumerated, and from every state of it the controller has to
come to rest.

A simulated life begins well and goes wrong. Here nothing goes wrong, and the world begins anywhere: each object absent,
as each step of its life leaves it, being deleted, or odd (unset strings as "", no status, finalizers torn off, the uid
of a former object, an unknown phase). The driver is kind, unless a value of the axis `backend` says no. One state: the
real controllers start on it, in virtual time; after `REST_S` it has come to rest, and nothing is done in the hour after
that but slow retries; at rest it is what the specification asks, or a reason that names the obstacle stands in an Event
that is still there, in a status, or in the log. Laws hold on the way.

| room      | controllers                                    | what is enumerated |
| --- | --- | --- |
| attacher  | attacher                                       | volume, three attachments, one of another one; backend |
| nodes     | attach/detach controller, attacher             | two pods, claim, node, two attachments |
| health    | node health                                    | node, its taints, Lease, and a pod; a second node |
| claims    | binder, scheduler, provisioner                 | claim, volume, class, pod, source, backend |
| ephemeral | the same, and ephemeral volumes                | pod whose volumes bring claims, such a claim, class |
| capacity  | provisioner that publishes capacity            | class, node, two CSIStorageCapacities, a volume |
| resizer   | resizer                                        | claim's status, size, class, its volume, pod, backend |
| snapshots | snapshot controller, snapshotter               | snapshot, two contents, class, claim, backend |
| groups    | the same, for groups                           | group, content, class, claims, members, backend |
| workloads | Deployments, ReplicaSets, StatefulSets, a node | how one works, its size, its user's changes, a restart |
| jobs      | Jobs, a node                                   | what is asked, how pods end, the user's acts, a restart |

| file       | meaning                                                                                    |
| ---------- | ------------------------------------------------------------------------------------------ |
| `space.py` | axes and their product; the bound of the quick share: all pairs, or all triples, of values |
| `world.py` | a store that begins with given objects, and everything that is done and said               |
| `run.py`   | one state from its start to its verdict                                                    |
| `rooms/`   | one module for each room: its axes, its objects, its laws, and what is asked at rest       |
| `bugs.py`  | parts of the controllers replaced by worse ones, which the states must find                |

In the last two rooms the world begins with the one object, and its user changes it two minutes later: what is
enumerated is what is asked.

`python -m tests.sim.states` takes the quick share of all rooms, `--whole` every state of their products (that is what
`make sim-all` does); `--room attacher --state pv=deleting,va=new` is one state with its story. An id names the values
that are not the ordinary ones.

Not enumerated: objects of more than one driver (a foreign one stands in each room as a value), the provisioner's
journal and what only a process remembers (the courses and the random lives do that), the node agent (its records and
mounts are enumerated in `tests/unit/node`), and faults on the way: states and faults are multiplied in the random lives
alone.
"""
