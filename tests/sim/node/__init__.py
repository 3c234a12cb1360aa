"""The simulation of the node agents: same faults, same loop, same kinds of proof as the attacher's, on mounts and records.

`python -m tests.sim --part node --seeds 1000`.
"""
