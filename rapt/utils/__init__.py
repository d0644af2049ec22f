"""Files, errors, processes, devices and progress bars: nothing here knows about privacy."""
