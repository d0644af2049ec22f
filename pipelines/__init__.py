"""Prefect flows: the DVC graph, in parallel."""
