"""Step-Audio 2 mini: speech or text to an answer, whose words and S3 tokens take turns.

Written from the architecture; what is proved of it is in docs/models.md.
"""
