"""The provider's side: backbones, adapters, reconstruction, training."""
