"""Programs that judge what a listener hears; they need the training environment."""
