"""What the server says of itself: groups, resources, schemas."""
