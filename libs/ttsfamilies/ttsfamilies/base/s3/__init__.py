"""Encoders of recordings for CosyVoice and Chatterbox: S3 tokens, mel frames, a speaker."""
