"""Files, errors, processes and progress bars: nothing here knows about privacy."""
