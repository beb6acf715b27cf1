"""Step-Audio 2's decoder: a flow of S3 tokens that keeps a window, and HiFT."""
