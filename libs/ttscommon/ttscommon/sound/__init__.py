"""Recordings that clients send, and what listeners hear."""
