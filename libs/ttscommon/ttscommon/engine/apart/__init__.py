"""An engine in one process, and the edge that works for it in another."""
