"""Progress lines with an estimate of the time left, and a curve file a picture is made from."""

import json
import time
from pathlib import Path


class Progress:
    """Reports a stage's progress on standard output and appends its numbers to a curve file."""

    def __init__(
        self, stage: str, total: float, curve: Path | None = None, start: float = 0.0
    ) -> None:
        self._stage = stage
        self._total = total
        self._curve = curve
        self._started = time.monotonic()
        self._start = start

    def report(self, done: float, **numbers: float) -> None:
        """Say that `done` of the stage's total is reached, with any measured numbers."""
        elapsed = time.monotonic() - self._started
        made = max(done - self._start, 1e-9)
        left = elapsed * (self._total - done) / made if self._total > done else 0.0
        shown = " ".join(f"{name}={value:.4g}" for name, value in numbers.items())
        print(
            f"{self._stage} {done:.0f}/{self._total:.0f} {elapsed:.0f}s left {left:.0f}s {shown}",
            flush=True,
        )
        if self._curve is not None:
            with self._curve.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"done": done, **numbers}) + "\n")
