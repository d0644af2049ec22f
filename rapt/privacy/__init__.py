"""Mechanisms, their noise, their release and their statistics."""
