"""The vesper family: the default voice's talker."""
