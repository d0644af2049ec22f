"""What a GPU does: a bundle for a machine without network, and what is measured there."""
