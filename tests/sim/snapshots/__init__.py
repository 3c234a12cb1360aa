"""The simulation of snapshot controller and snapshotter: snapshots and groups of them, made, imported, kept and deleted.

`python -m tests.sim --part snapshots --seeds 1000`. Some seeds have two processes of a program at once, as while a lease changes hands.
"""
