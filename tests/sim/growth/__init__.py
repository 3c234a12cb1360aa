"""The simulation of the resizer: claims that grow and change their class, on a driver that fails in every class of errors.

`python -m tests.sim --part resizer --seeds 1000`. A hand does the nodes' part, as kubelets do it.
"""
