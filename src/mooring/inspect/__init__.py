"""Reading a cluster for people. Nothing here decides what controllers do, and nothing is changed unasked.

One reader makes a `Scene` of an object and its chain, by names where names lead on; all judgements over it are pure.
Where a controller has a decision about a thing (bind, provision, attach, take a finalizer off), that decision is
called, so that advice and deed agree; a test fails for a reason without advice. Each command has its room: `why`,
`timeline`, `doctor`, `unstick` and `fencing`; orphans and removed drivers stand beside them.
"""
