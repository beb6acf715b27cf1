"""Messages, bus, lifecycle, settings and metrics shared by every Antiphon service."""
