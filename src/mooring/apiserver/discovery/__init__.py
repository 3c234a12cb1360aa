"""The server about itself: groups, resources, schemas."""
