"""Tells whether a CSI driver keeps the rules of the book (`conform/book/`).

A watcher is told of each call that is made, by a client or to a driver of this process, and judges it. `checks` has
what is asked, each check with its rule and the tests of csi-sanity that ask the same; the runner makes the checks,
deletes after each, and kills the driver where the check is about that. `call` makes one call by hand. `proxy` stands
between a driver and its callers, and makes the faults of a script. `record` writes the calls that pass, and asks a
driver again.
"""
