"""How many instructions a sidecar takes for one attach, detach, provision, deletion and watch event: `make meter`.

valgrind's callgrind counts them in the running program, through its real client, TLS and gRPC. On the other side stand
the embedded API server's store and a driver that answers at once, in the meter's own process, where nothing is counted
(`stub.py`). Two things make a count repeat to a few thousandths, whatever else the machine does: a count is that of
many operations after some that warm up, so that the start cancels out; and the stub says each thing alone, once the
program sleeps (`Stub.settle`), so that what comes together never hangs on time. The figures in `kept.json` are those of
one build of Python, since another one takes other instructions for the same work (`kept.py`).
"""
