"""The simulation of the resizer: claims that grow and change their class, on a driver that fails in every class of
errors.

`python -m tests.sim --part resizer --seeds 1000`. A hand does the nodes' part, as kubelets do it. The world's worse
habits are named in `habits.py`.

Certain is that a driver which answers with a final code is not at work on the volume any more: Kubernetes' recovery of
failed growths rests on it, so that a driver which refuses a repeated request while it carries out the first is not
modelled. Nor are replicas behind a Lease. An API server that is set back: `setting_back.py`.
"""
