"""The voice nocturn: vesper's files, lower and of a longer vocal tract."""
