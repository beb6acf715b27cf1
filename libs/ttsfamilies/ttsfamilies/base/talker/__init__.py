"""The host side of a model family. No torch here."""
