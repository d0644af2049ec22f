"""Privatizing a user's own text: files of any size, spaCy pipelines and data sets."""
