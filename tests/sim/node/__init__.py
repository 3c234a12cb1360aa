"""The simulation of the node agents: same faults, same loop, same kinds of proof as the attacher's, on mounts and
records.

A few machines with an agent and drivers each, an attach/detach controller, and pods that come, go and move. An agent
dies between any two changes of its disk, around every request and every call, and begins anew on the same disk and the
same mounts; machines reboot. The whole agent runs, registration included; in place of sockets, threads, mount(8) and
losetup(8) it is handed what these files make:

| file            | meaning |
| --- | --- |
| `plan.py`       | what a seed chooses: drivers, volumes, the share of each fault |
| `machine.py`    | what of a node outlives its agents: disk, mounts, device files, loop devices, sockets |
| `disk.py`       | work for threads, done at once in virtual time |
| `kernel.py`     | what such work does to a machine, with a chance to die or to fail before each change |
| `driver.py`     | a driver's node service on one machine: what its calls do, partly do, or do later |
| `endpoint.py`   | a driver, its registrar and the folder of sockets, as one incarnation of an agent reaches them |
| `controller.py` | the attach/detach controller and the attacher as one actor |
| `habits.py`     | what a seed chooses of the world's habits: which troubles there are, and in what drivers differ |
| `acts.py`       | what users, administrators and accidents do |
| `troubles.py`   | what wears out, and what users do by mistake: beside the acts, drawn on their own |
| `upgrades.py`   | other versions of a driver are rolled out, with other capabilities |
| `laws.py`       | what must hold at every step |
| `calls.py`      | those of the laws that a call can break |
| `pod_words.py`  | what a pod's object says of it |
| `groups.py`     | the groups that pods want their files to belong to, and what must come of that |
| `told.py`       | what users of pods must hear, and what they must not |
| `checkers.py`   | what must be true once the faults have ended, and once all pods are gone |
| `watchman.py`   | who is held up by a driver that hangs, though he has nothing to do with it |
| `bugs.py`       | parts of the agent replaced by worse ones, which the simulation must find |
| `mended.py`     | defects that were mended, planted again: among the bugs |
| `outgrown.py`   | more of them: in what is known of upgraded drivers, and in what users are told |
| `grouped.py`    | more of them: in what becomes of groups |
| `pod_bugs.py`   | more of them: in what is known of pods |
| `disk_bugs.py`  | more of them: in records and folders |

In what drivers differ is defined in `tests/support/node_habits.py`, for the drivers of the unit tests, too. A habit
more is a field there, a line in `driver.py` that does it, and a draw in `habits.py`; a trouble more, a method of
`troubles.py` with a weight. Not modelled: the growth of volumes (`plane/`), SELinux labels, and what hangs in a folder
rather than in a driver or on the whole disk.

A life: chaos; then the faults end and every pod must come to run; then all pods are deleted, and nothing may be left
anywhere. `python -m tests.sim --part node --seeds 1000`.
"""
