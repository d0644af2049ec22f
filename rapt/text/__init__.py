"""From text to tagged words, and from a public vocabulary to embedding tables."""
