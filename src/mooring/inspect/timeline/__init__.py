"""The history of one object's chain: what happened when, the waits, and whose move it was meanwhile.

`lanes.py` reads the chain and lists its objects; `writers.py`, `states.py` and `told.py` find moments, each in a source of its own;
`story.py` sorts them and finds the waits. `render.py` prints text and values, `page.py` a page. Only `lanes.py` does I/O.
"""
