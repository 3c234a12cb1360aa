"""Why an object is stuck: every link of its chain, the one that blocks, whose move it is, and the next command.

`reading.py` reads what an explanation needs, `scene.py` holds it, the files named after links judge it without I/O, `render.py` prints it.
"""
