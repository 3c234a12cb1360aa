"""A whole control plane in a test, as a pytest fixture: `def test_x(mooring_cluster)`. Nothing here is loaded before a
test asks for it.

The plane has the controllers of `dev`, agents, and a driver that is called in the process or over its sockets. Time
passes virtually, or by a real clock that leaps over idle moments. Each call is recorded, judged by the book, and struck
with the faults that a test asks for, as are requests to the API server. A test's words are coroutines, and the same as
plain functions; where something does not come, the fixture asks `mooring why`.
"""
