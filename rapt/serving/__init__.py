"""The provider's model and server, and the user's client, which sends privatized words alone."""
