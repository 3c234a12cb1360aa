"""Server-side apply: who owns which field, and what a manager's word makes of an object."""
