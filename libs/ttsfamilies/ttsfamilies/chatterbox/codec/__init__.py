"""Chatterbox's S3Gen: a sentence's S3 tokens at once, or on CosyVoice's grid."""
