"""How long a request waits for what comes next, and what it is told when that does not come."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.errors import InputTimeout, SynthesisTimeout
from gateway.requests.incremental import IncrementalText
from gateway.settings import GatewaySettings
from ttscommon.errors import AntiphonError


@dataclass(frozen=True)
class Patience:
    """For the next record of one request. `first`: nothing of it has come yet."""

    settings: GatewaySettings
    text: IncrementalText | None
    last_s: float
    first: bool

    def left_s(self, now_s: float) -> float:
        """How much longer to wait."""
        settings, text = self.settings, self.text
        if text is not None and not text.complete:
            return text.touched_s + settings.input_timeout_s - now_s
        limit = settings.first_audio_timeout_s if self.first else settings.stall_timeout_s
        since = max(self.last_s, text.touched_s) if text is not None else self.last_s
        return since + limit - now_s

    def exhausted(self) -> AntiphonError:
        settings, text = self.settings, self.text
        if text is not None and not text.complete:
            return InputTimeout(f"no text came for {settings.input_timeout_s:g} s")
        if self.first:
            return SynthesisTimeout(f"no audio came in {settings.first_audio_timeout_s:g} s")
        return SynthesisTimeout(f"no more audio came for {settings.stall_timeout_s:g} s")
