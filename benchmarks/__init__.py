"""Benchmarks of speed and memory: ratios and totals, measured on one machine in one run."""
