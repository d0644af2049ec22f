"""Measures of a release, statements about it, and its gate: nothing here decides a release."""
