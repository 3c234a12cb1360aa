"""The attach/detach controller: VolumeAttachments from pods, and the report of attached volumes in each Node's status."""
