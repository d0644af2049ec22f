"""Attacks on releases: one module each."""
