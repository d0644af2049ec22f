"""RAPT: privacy-preserving fine-tuning on text (arXiv 2305.06212)."""

__version__ = "0.1.0"
