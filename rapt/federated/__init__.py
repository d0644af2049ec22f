"""Tuning among clients whose texts stay with them, with differential privacy for each client."""
