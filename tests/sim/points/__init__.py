"""Every point of a script: what goes wrong once at each write, call and event of a short run, tried one after the
other.

A life of a seed draws its faults; here nothing is drawn. A script is acts in a fixed order on one of the simulation's
worlds, without any fault. Its run is recorded, and then repeated once for each trial. The loop runs what is ready in
the same order each time, so that the tenth write is the same one in every run, until something goes wrong with it. On
the way the laws of the part hold, as in its lives. At rest its checkers do, and the end is that of the undisturbed run:
the same objects, but for uids, versions and times, and the same storage.

The patterns are those of Sieve (OSDI 2022): a process that dies in between, a view that goes back in time, a state that
is never seen.

| word     | file          | meaning |
| --- | --- | --- |
| script   | `script.py`   | acts in a fixed order, each brought to its end; its stage is the world with programs |
| touch    | `trial.py`    | a write of a program, a call of its driver, or a step on its disk; numbered |
| point    | `trial.py`    | a touch, or an event that a watch shows a program |
| trial    | `trial.py`    | a run with one thing that goes wrong at one point: `attach:lost:3` |
| way      | `trial.py`    | what goes wrong there |
| director | `director.py` | what counts a run's points, and does what the trial says (`directing.py`: its doors) |
| view     | `views.py`    | what a program is shown: old lists, silent watches; and what is excused for that |
| ends     | `ends.py`     | all objects and the storage at the end of a run, without what differs from run to run |

| way           | at            | what happens |
| --- | --- | --- |
| `kill-before` | every touch   | the process is killed before it, and started again |
| `kill-after`  | writes, calls | it is killed after it, before it has the answer |
| `kill-in`     | writes, calls | it is killed meanwhile; what it sent is carried out when the next one has listed all |
| `stale`       | writes, calls | as kill-after; the next one's first lists are old (`@version`), its watches silent |
| `unseen`      | events        | the watch stalls before it, until the object changes again or for a while |
| `lost`        | writes, calls | it is carried out, and answered with an error that leaves that open |
| `late`        | writes, calls | it is given up, and carried out after the next change; a call after its deadline |
| `doubt`       | calls         | as lost, and the next call of its kind is refused without a look at what is there |
| `next`        | writes, calls | while it is on its way, the last act comes |
| `next-lost`   | writes, calls | the same, and its answer is lost |
| `next-late`   | writes, calls | the same, and it is given up and carried out seconds later |
| `stop`        | writes, calls | the process stands still, the request goes on; another one leads when it wakes |
| `stop-after`  | writes, calls | it stands still with the answer |

A stale first list is one that no API server gives: a list without a version is of the newest state. So what a process
breaks on such a view, until it has caught up, is excused, and so is what a call or a creation of it leaves in the
storage; but the world must come to the same end.
"""
