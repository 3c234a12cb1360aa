"""What happened when to one object's chain, with the waits and who had the move in them.

`lanes.py` reads the chain and lists its objects; `writers.py`, `states.py` and `told.py` find moments, each in a source of its own;
`story.py` sorts them and finds the waits. `render.py` prints text and values, `page.py` a page. Only `lanes.py` does I/O.
"""
