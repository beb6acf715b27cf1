"""The making of the default voice, end to end, by one command."""
