"""Measurements on results and models: intervals, hidden states."""
