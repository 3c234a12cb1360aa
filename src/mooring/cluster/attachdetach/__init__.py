"""The attach/detach controller: VolumeAttachments from pods, and the report of attached volumes in each Node's status.

Read `decide.py` first, whose table has each state of a volume on a node with the step that follows; `controller.py` has
the queues. VolumeAttachments and Nodes are its only state; the memory has times, requests without an answer, and the
events already sent.
"""
