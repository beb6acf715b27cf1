"""How long a session waits for its client to take or say its last words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class SessionTuning:
    """Seconds. `close_s`: how long a client may take for the last messages. `clean_up_s`: longer
    than a request takes to be left. `close_code_s`: how long the reader may need to learn how the
    client left, after a sending failed.
    """

    close_s: float = 1.0
    clean_up_s: float = 6.0
    close_code_s: float = 0.2


DEFAULT_TUNING: Final = SessionTuning()
