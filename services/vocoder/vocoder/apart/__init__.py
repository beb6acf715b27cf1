"""The vocoder in two processes: its engine, and the edge that takes its jobs."""
