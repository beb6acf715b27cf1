"""Services of the gateway that every request needs."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Final, TypeVar

from gateway import errors
from gateway.admission import Admission
from gateway.audio import Provenance
from gateway.audio.watermark import Perth
from gateway.requests.catalogue import Catalogue
from gateway.requests.listeners import Listeners, ResumeTokens
from gateway.requests.retention import Retention
from gateway.requests.tenants import ByteQuota
from gateway.requests.usage import UsageCounter
from gateway.settings import GatewaySettings
from ttscommon.bus import Bus
from ttscommon.process.metrics import GatewayMetrics
from ttscommon.process.tasks import Chores
from ttscommon.sound.playback import Headroom
from ttscommon.wire import subjects
from ttscommon.wire.errors import MalformedMessage, NoResponders, Overloaded
from ttscommon.wire.lookups import (
    SECONDS,
    Lookup,
    PhonesFound,
    Refused,
    Style,
    decode_found,
    encode,
)
from ttscommon.wire.replicas import Model


@dataclass(frozen=True)
class SpeechTuning:
    """One request, from its text to its End."""

    look_s: float = 0.5
    """How often a silent request is looked at: its text may have come, or its writer may have
    failed.
    """
    report_every_s: float = 1.0
    """Between two reports of playback to the stages."""
    text_end_s: float = 5.0
    """How long committing a client's last text may take."""
    listener_timeout_s: float = 15.0
    """How long the stages go on without word of a listener who cannot come back: longer than a
    broker takes to restart.
    """
    tell_s: float = 1.0
    """A request that is silent for so long tells its client if workers are missing."""
    lost_job_s: float = 2.0
    """How long a request whose queue is gone waits for a worker that may have had its job."""
    offline_s: float = 600.0
    """How much longer an offline request may be silent."""


@dataclass(frozen=True)
class RequestServices:
    """What a Speech needs of its gateway. Protocols do not look inside."""

    settings: GatewaySettings
    bus: Bus
    catalogue: Catalogue
    admission: Admission
    metrics: GatewayMetrics
    tokens: ResumeTokens
    listeners: Listeners
    retention: Retention
    usage: UsageCounter
    watermark: Perth | None = None
    tuning: SpeechTuning = SpeechTuning()
    chores: Chores = field(default_factory=Chores)
    session_bytes: ByteQuota = field(default_factory=lambda: ByteQuota(16 << 20, 7200.0))
    """A quarter of what the bucket holds, for as long as it holds it."""
    headrooms: defaultdict[str, Headroom] = field(default_factory=lambda: defaultdict(Headroom))
    """By model."""
    recording_bytes: ByteQuota = field(default_factory=lambda: ByteQuota(128 << 20, 3600.0))
    """Of recordings that came with requests: an eighth of what a store of the usual size holds."""

    def provenance(self, model: str) -> Provenance | None:
        """What the sound of a model says of its origin, unless the operator turned that off."""
        settings = self.settings
        return Provenance(model, settings.provenance_by) if settings.provenance else None

    def cancel(self, request_id: str, reason: str, *, ended: bool) -> None:
        """Tell the stages in the background: a caller that is cancelled does not stop it."""
        self.chores.start(self.bus.cancel(request_id, reason, ended=ended))


_MOST_LOOKUPS: Final = 4

Wanted = TypeVar("Wanted", PhonesFound, Style)


class Lookups:
    """Asks the freest talker of a model. Few at once: talkers serve listeners meanwhile."""

    def __init__(self, bus: Bus, catalogue: Catalogue) -> None:
        self._bus, self._catalogue = bus, catalogue
        self._asking = 0

    def __len__(self) -> int:
        return self._asking

    async def ask(self, model: Model, asked: Lookup, kind: type[Wanted]) -> Wanted:
        """The talker's answer.

        Raises Overloaded, Unavailable, BusUnavailable, Unsupported where the model has none, and
        BadRequest.
        """
        if self._asking >= _MOST_LOOKUPS:
            raise Overloaded("other texts are being read: try again in a moment")
        talkers = self._catalogue.snapshot.live("talker", model.name)
        if not talkers:
            raise errors.unserved(model.name, "talker")
        freest = max(talkers, key=lambda talker: talker.free)
        self._asking += 1
        try:
            subject = subjects.lookup(freest.worker_id)
            found = decode_found(await self._bus.link.request(subject, encode(asked), SECONDS))
        except NoResponders as error:
            message = f"the talker of '{model.name}' does not answer: it may be of an older release"
            raise errors.Unavailable(message, param="model") from error
        finally:
            self._asking -= 1
        if isinstance(found, Refused):
            raise errors.from_stage(found.code, found.message, found.param)
        if not isinstance(found, kind):
            raise MalformedMessage(f"{type(found).__name__} is no answer to this")
        return found
