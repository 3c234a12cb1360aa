"""The deterministic simulation: the attacher on the in-process ports, in virtual time, with everything that can go
wrong.

One seed is one life of a small world: volumes, nodes, a driver, users, faults and crashes. While it lives, laws are
checked at every step (`laws.py`); when the faults have ended and the world has come to rest, its state is judged
(`checkers.py`). The same seed gives the same life, step by step: `python -m tests.sim --part attacher --seed 7`.

Beside it: provisioner and binder (`provisioning/`), the resizer (`growth/`), snapshot controller and snapshotter
(`snapshots/`), the node agents (`node/`), the reference driver (`driver/`), and the whole plane (`plane/`). Where a
seed draws its faults, `points/` tries each of them once, at every write, call and event of a short script; `states/`
begins from any state that objects can be in; `sizes/` counts what a change costs in large worlds.

The words, each with the file that defines it:

| word        | file           | meaning |
| --- | --- | --- |
| seed        | `plan.py`      | the one number from which everything random in a life follows |
| plan        | `plan.py`      | what a seed chooses before the life: volumes, nodes, options, shares of faults |
| part        | `parts.py`     | what is simulated: its plans, lives and bugs; each part has a row of the table |
| world       | `world.py`     | the API server's store, the backend, the laws and the verdict of one life |
| course      | `course.py`    | the phases of a life, for all parts: chaos, peace, rest |
| story       | `story.py`     | all steps of a life, printed when a law is broken; a seed repeats its digest |
| verdict     | `world.py`     | the first broken law or invariant of a life, with its time |
| law         | `laws.py`      | a condition that must hold at every step, judged on the store and the backend |
| checker     | `checkers.py`  | a condition that must hold at rest |
| truth       | `truth.py`     | the objects in the API server's store, read without faults and without a cache |
| line        | `line.py`      | an incarnation's connection to the API server; it delays, refuses, loses answers |
| habit       | `habits.py`    | what the API server or a process may do at its worst; how a part turns it on |
| door        | `doors.py`     | where a habit of the API server comes into a line; `server.py` has what outlives it |
| past        | `history.py`   | every version of the API server's store: for servers that lag, and for backups |
| stopped     | `standing.py`  | a process that stands still, as under SIGSTOP, while the world goes on |
| term        | `leading.py`   | the work of a program while it leads, behind a real Lease with our own election |
| endpoint    | `endpoint.py`  | the connection of one incarnation to the driver |
| backend     | `backend.py`   | the storage behind the driver, one call for a volume at a time |
| fate        | `backend.py`   | how a request or call goes: its delays, its effect, the error in its answer |
| incarnation | `mortal.py`    | one process of a controller, from its start to its death; numbered from 1 |
| mortal      | `mortal.py`    | what holds an incarnation's task and can kill it wherever it touches the world |
| keeper      | `keeper.py`    | the supervisor that starts the next incarnation when one has ended |
| life        | `life.py`      | what an incarnation is made of; `Life` in `course.py` is a whole run of one seed |
| actor       | `actor.py`     | the controllers beside the one that is tested: attach/detach, pv-protection, kubelets |
| act         | `acts.py`      | one thing that a user, an administrator or an accident does during chaos |
| hands       | `hands.py`     | the requests with which actor and acts change the world; they meet no faults |
| tear        | `tears.py`     | the removal of an attachment by force, finalizer and all |
| knowledge   | `knowledge.py` | what an incarnation must know from its answers, so that it does nothing twice |
| twin        | `plan.py`      | a second attachment of one volume to one node |
| script      | `points/`      | acts in a fixed order, without random faults; its points are tried one by one |
| cut         | `shrinking.py` | a thing taken out of a plan, to see whether a life without it fails the same way |
| share       | `share.py`     | the lives, points and states that CI runs for a commit |
| accident    | `accidents.py` | what befalls processes and API server: a stop, a backup, a server set back |
| bug         | `bugs.py`      | a part of a program replaced by a worse one, which must be found (`planting.py`) |
"""
