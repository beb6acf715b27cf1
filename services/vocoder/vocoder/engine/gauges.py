"""Metrics of what streams' states take, of codecs whose states grow."""

from __future__ import annotations

from ttscommon.process.metrics import Metrics
from ttsfamilies.base.codec.base import Codec


class StateGauges:
    """Exports nothing of a codec whose states stay as they are."""

    def __init__(self, metrics: Metrics, codec: Codec) -> None:
        self._of, self._codec, self._counted = metrics, codec, 0
        if limit := codec.state_use.memory_bytes:
            metrics.state_bytes.labels("limit").set(limit)
            self.tell()

    def tell(self) -> None:
        """What it is now."""
        use = self._codec.state_use
        if use.memory_bytes:
            self._of.state_bytes.labels("used").set(use.held_bytes)
            self._of.recomputations.labels().inc(use.recomputed - self._counted)
            self._counted = use.recomputed
