"""The shapes of kinds, declared as text; JSON and protobuf checked against them."""
