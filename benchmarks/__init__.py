"""What privatization costs: ratios and totals, measured on one machine in one run."""
