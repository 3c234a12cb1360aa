"""Why an object is stuck: every link of its chain, the one that blocks, whose move it is, and the next command.

The files named after links judge a `Scene` (`inspect/scene.py`) without I/O, `render.py` prints the answer.
"""
