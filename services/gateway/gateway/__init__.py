"""Antiphon gateway: HTTP and WebSocket in, streamed audio out."""
