"""The attach/detach controller: VolumeAttachments from pods, and the report of attached volumes in each Node's status.

Read `decide.py` first, whose table has each state of a volume on a node with the step that follows; `controller.py` has
the queues. What it wants and has done stands in objects; what it knows beside them, and what the loss of that costs, is
listed in `memory.py`.
"""
