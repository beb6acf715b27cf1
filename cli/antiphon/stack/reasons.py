"""Reasons why a process did not start, out of its last output."""

from __future__ import annotations

import json
from collections.abc import Sequence


def reason_of(tail: Sequence[str]) -> str:
    """The error of its last event that has one, else its last line."""
    for line in reversed(tail):
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if isinstance(event, dict) and event.get("error"):
            return str(event["error"])
    return tail[-1] if tail else "it said nothing"
