"""Chatterbox's T3: a Llama with guidance, or a GPT-2, from text and a voice to S3 tokens."""
