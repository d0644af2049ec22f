"""Where the text comes from, and the gates it passes."""
