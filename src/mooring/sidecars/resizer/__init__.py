"""Grows the volumes of one driver as their claims ask for it, and changes their VolumeAttributesClass.

Read `expansion/decide.py` first: the growth as a table, its states, events and writes; then `expansion/reconcile.py`,
which carries it out. `modification` has the same two files for classes. Below both stand `view` (what is read and
remembered), `decision` (what both decisions share), `requests` and `conditions`; `reconcile` performs what both do, and
`controller` has the queues and what wakes a claim. The two share the calls, one at a time for each volume, and the pods
that use a volume, which are watched only after the driver has refused a volume in use (`pods_in_use`).

The claim holds everything that a restart must know: size or class under way, and the code of the driver's last error as
its condition's reason. Only an answer to this very process proves that the driver is idle.
"""
