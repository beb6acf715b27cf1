"""Open-loop load generator for streaming speech servers."""
