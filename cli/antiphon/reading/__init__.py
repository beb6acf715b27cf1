"""The parts of `antiphon read`: what is spoken, where it is kept, how it becomes a file."""
