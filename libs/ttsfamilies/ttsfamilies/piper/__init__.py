"""Piper: VITS. A sentence is read whole, its durations drawn, and any frame follows from them."""
