"""S3 tokens to sound by a flow and HiFT: CosyVoice 2, Fun-CosyVoice 3, Chatterbox."""
