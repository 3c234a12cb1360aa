"""What tests of several rooms share: the real parts, layers that may be missing, waiting for other programs."""
