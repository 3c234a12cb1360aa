"""The simulation of snapshot controller and snapshotter: snapshots and groups are made, imported, kept, torn away,
restored, deleted.

`python -m tests.sim --part snapshots --seeds 1000`. The world's worse habits are named in `habits.py`; the bugs of
`mended_bugs.py` are defects that were mended.

One thing is certain, and both this snapshotter and csi-snapshotter rely on it (`backend.py`): the request that makes
something is not answered by a code which says that it has not. Not modelled: kinds that go while they have objects
(with the kinds their objects go, and nobody could know what they named); an API server that is set back; replicas
behind a Lease.
"""
