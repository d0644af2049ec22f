"""The provider's side at inference: an adapted model and its server; no text reaches it."""
