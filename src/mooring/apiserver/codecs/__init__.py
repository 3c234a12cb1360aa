"""Bodies of requests into objects, and patches: shapes declared as text, JSON, YAML and protobuf held against them."""
