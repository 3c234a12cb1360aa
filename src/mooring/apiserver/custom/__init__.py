"""Custom kinds: what a CustomResourceDefinition says, made into a kind that the store serves."""
