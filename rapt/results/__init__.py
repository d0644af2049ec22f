"""A cell's JSON: its schema, writing and reading it, and its mirror in MLflow."""
