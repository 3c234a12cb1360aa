"""Server-side apply: who owns which field, and the object that an apply makes."""
