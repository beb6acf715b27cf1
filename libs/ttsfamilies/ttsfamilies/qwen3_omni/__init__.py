"""Qwen3-Omni's talker: speech of what its thinker, in another service, is saying.

Its text is rows of the thinker: embeddings of the tokens that it says, and hidden states where its
prompt is sound or pictures. Written from the architecture and proved against transformers, token
for token (tests/parity).
"""
