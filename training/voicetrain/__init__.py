"""How the default voice is made, end to end, by one command."""
