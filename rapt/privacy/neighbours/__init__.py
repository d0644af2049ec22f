"""The exact nearest neighbours of many queries: a fast first pass, a certificate, float64."""

from rapt.privacy.neighbours.search import ExactSearch

__all__ = ["ExactSearch"]
