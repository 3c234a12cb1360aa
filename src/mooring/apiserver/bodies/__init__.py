"""A request's body into an object or a patch, by the shape of the kind."""
