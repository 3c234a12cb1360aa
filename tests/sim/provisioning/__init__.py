"""The simulation of the provisioner and the binder: same faults, same loop, same kinds of proof as the attacher's, on
claims.

`python -m tests.sim --part provisioner --seeds 1000`.
"""
