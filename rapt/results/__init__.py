"""A cell's JSON: its schema, writing it and reading it."""
