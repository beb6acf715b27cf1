"""What a model family implements on the host. No torch here."""
