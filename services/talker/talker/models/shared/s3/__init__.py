"""What CosyVoice and Chatterbox hear of a recording: S3 tokens, mel frames, a speaker."""
