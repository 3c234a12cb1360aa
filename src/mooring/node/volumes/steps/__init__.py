"""The steps of a volume, each a call to its driver with the files around it, and what users are told of them."""
