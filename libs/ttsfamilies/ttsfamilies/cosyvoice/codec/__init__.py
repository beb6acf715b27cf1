"""CosyVoice 2 and Fun-CosyVoice 3: S3 tokens on the grid of their streaming mask."""
