"""Growth with size is a law: what a controller does for N objects is counted in steps, for N, 2N and 4N.

A step is a line of Mooring's own code that runs, or an object that a cache hands out; time plays no part, nor does a
noisy machine. The embedded API server's own steps, asyncio's and those of the fakes are not counted; in the scenario of
the API server's garbage collector they are.

    total    The steps from N to 2N, and from 2N to 4N: the second is twice the first where the work is linear, and four
             times where it is quadratic. The ratio stays under `RATIO_MAX`; what every start costs falls out of it.
    stretch  The most steps between two looks of the loop at the world: a callback that grows with N stays under
             `STRETCH_MAX` at the whole size, which is about 100 ms.

| file          | meaning                                                                  |
|---------------|--------------------------------------------------------------------------|
| `steps.py`    | the count of steps, in all and of the longest callback                   |
| `scenarios.py`| the scenarios: the objects for a size, and the controllers               |
| `run.py`      | one scenario at one size; the law                                        |
| `bugs.py`     | places made quadratic, which the law must find                           |

`python -m tests.sim.sizes` takes the quick sizes, `--whole` those that a large cluster has: 5,000 nodes, 10,000 claims
of one class, 1,000 volumes on a node, 10,000 attachments without PersistentVolume, 10,000 objects of one owner, 1,000
snapshots of one volume.
"""
