"""Baselines: the accuracy that a user reaches alone, when no text is sent."""
