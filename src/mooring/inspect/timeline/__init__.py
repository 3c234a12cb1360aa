"""The history of one object's chain: what happened when, the waits, and whose move it was meanwhile.

`lanes.py` reads the chain and lists its objects; `moments.py` finds what these tell; `story.py` sorts the moments and
finds the waits. `render.py` prints text and values, `page.py` a page. Only `lanes.py` does I/O.
"""
