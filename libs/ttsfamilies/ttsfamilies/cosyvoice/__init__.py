"""CosyVoice 2 and Fun-CosyVoice 3: text and a recording to S3 tokens; a flow makes them sound."""
