"""What is mounted on this machine, and how to change it."""
