"""How long tests wait for what is to come."""

from __future__ import annotations

from typing import Final

TIMEOUT_S: Final = 60.0
"""Where all goes well nothing waits for so long, however busy the machine is."""
