"""What the live workers can speak: models, voices, capacity, as they report it themselves."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import structlog

from gateway.admission.forecast import View
from gateway.errors import Loading, Unavailable
from gateway.requests import retired
from gateway.requests.aliases import DEFAULT
from ttscommon import subjects
from ttscommon.bus import Bus
from ttscommon.errors import BusUnavailable, MalformedMessage, UnknownModel, UnknownVoice
from ttscommon.replicas import Model, Replica, Voice

_ANY_LANGUAGE: Final = "mul"

log_ = structlog.get_logger(__name__)

# A model's and a voice's name, as a client says them -> as the catalogue has them now.
Naming: TypeAlias = Callable[[str, str], tuple[str, str]]

StageName = Literal["talker", "vocoder"]


@dataclass(frozen=True)
class CatalogueTuning:
    """`poll_s`: replicas report once a second, so polling more often shows nothing new.
    `again_s`: the least time between two refreshes that a doubtful question asks for.
    `reports`: what so many reports in a row say of other gateways' streams is believed.
    """

    poll_s: float = 1.0
    again_s: float = 0.2
    reports: int = 3


@dataclass(frozen=True)
class Snapshot:
    """The replicas that lived at the last refresh. Pure; every question to it is a method."""

    replicas: tuple[Replica, ...] = ()

    def models(self) -> dict[str, Model]:
        """By name, everything that a talker serves; voices come from whoever lists them."""
        found: dict[str, Model] = {}
        for replica in self._serving("talker"):
            for model in replica.models:
                found.setdefault(model.name, model)
        return dict(sorted(found.items()))

    def live(self, stage: StageName, model: str) -> list[Replica]:
        """The replicas of `stage` that take jobs of `model`."""
        return [r for r in self._serving(stage) if any(m.name == model for m in r.models)]

    def busy(self, model: str) -> int:
        """Streams that the talkers of `model` report."""
        return sum(r.slots - r.free for r in self.live("talker", model))

    def model(self, name: str, preferred: str) -> Model:
        """The model called `name`, or the default one; raises UnknownModel or Unavailable."""
        models = self.models()
        wanted = preferred if name == DEFAULT else name
        if wanted not in models and wanted in self.loading("talker"):
            raise Loading(f"a talker is loading '{wanted}': try again in a moment", param="model")
        if not models:
            raise Unavailable("no talker is running: nothing can be spoken yet")
        if name == DEFAULT:
            return models.get(preferred) or next(iter(models.values()))
        if name not in models:
            name = retired.MODELS.get(name, name)
        if name not in models:
            known = ", ".join(models)
            raise UnknownModel(f"there is no model '{name}'; try {known}", param="model")
        return models[name]

    def loading(self, stage: StageName) -> set[str]:
        """Models that replicas of `stage` have not finished loading."""
        return {r.loading for r in self.replicas if r.stage == stage and r.loading}

    def _serving(self, stage: StageName) -> Iterable[Replica]:
        return (r for r in self.replicas if r.stage == stage and not r.draining)


def voice_of(model: Model, voice_id: str) -> Voice:
    """The voice called `voice_id`, its heir, or the model's first; raises UnknownVoice.

    A model without voices of its own speaks with those that clients made of recordings, or as it
    is told to, and then the name says nothing.
    """
    if not model.voices:
        cloned = "ref_audio" in model.accepts and voice_id != DEFAULT
        return Voice(voice_id if cloned else "", voice_id if cloned else "", _ANY_LANGUAGE)
    for wanted in (voice_id, retired.VOICES.get(voice_id)):
        for voice in model.voices:
            if wanted in (DEFAULT, voice.id):
                return voice
    known = ", ".join(voice.id for voice in model.voices)
    raise UnknownVoice(f"there is no voice '{voice_id}'; try {known}", param="voice")


class Catalogue:
    """Keeps a snapshot fresh. While the broker is away the last one stands."""

    def __init__(
        self, bus: Bus, default_model: str, tuning: CatalogueTuning = CatalogueTuning()
    ) -> None:
        self._bus = bus
        self._default_model = default_model
        self._tuning = tuning
        self._refreshed_s = 0.0
        self._refreshing = asyncio.Lock()
        self.snapshot = Snapshot()
        self.own: Counter[str] = Counter()
        self._others: dict[str, deque[int]] = {}

    def capacity(self, model: str) -> View:
        """The replicas of `model`, and the streams they hold: our own now, others' as reported.

        Reports are about a second old. What they say beyond our own streams may be our own of a
        second ago, so only what they keep saying counts as other gateways'.
        """
        talkers = self.snapshot.live("talker", model)
        others = min(self._others.get(model, (0,)))
        rate_hz = next((m.frame_rate_hz for r in talkers for m in r.models if m.name == model), 0.0)
        return View(
            tuple(talkers),
            tuple(self.snapshot.live("vocoder", model)),
            self.own[model] + others,
            rate_hz,
        )

    def adopt(self, model: str) -> None:
        """One of the others' streams goes on here: until the next refresh it would count twice.

        That is when a gateway has died and all of its listeners come at once.
        """
        reports = self._others.get(model, ())
        fewer = (max(0, n - 1) for n in reports)
        self._others[model] = deque(fewer, maxlen=self._tuning.reports)

    async def run(self) -> None:
        """Refresh for ever."""
        while True:
            await self.refresh()
            await asyncio.sleep(self._tuning.poll_s)

    async def resolve(
        self, model: str, voice: str, naming: Naming | None = None
    ) -> tuple[Model, Voice]:
        """What a client's names mean; refreshes before it says no. `naming` translates them first.

        Raises UnknownModel, UnknownVoice or Unavailable.
        """
        try:
            return self._resolve(model, voice, naming)
        except (UnknownModel, UnknownVoice, Unavailable):
            asked_s = time.monotonic()
        # Only a refresh begun after the question may say no: a worker may have reported since the
        # last. Concurrent questions share one refresh, and refreshes are rate-limited.
        async with self._refreshing:
            if self._refreshed_s < asked_s:
                await asyncio.sleep(self._refreshed_s + self._tuning.again_s - time.monotonic())
                await self.refresh()
        return self._resolve(model, voice, naming)

    def _resolve(self, model: str, voice: str, naming: Naming | None) -> tuple[Model, Voice]:
        if naming is not None:
            model, voice = naming(model, voice)
        found = self.snapshot.model(model, self._default_model)
        if self.snapshot.live("vocoder", found.name):
            return found, voice_of(found, voice)
        if found.name in self.snapshot.loading("vocoder"):
            raise Loading(f"a vocoder is loading '{found.name}': try again in a moment")
        raise Unavailable(f"no live vocoder serves '{found.name}'", param="model")

    async def refresh(self) -> None:
        """Read the replicas' reports now."""
        started_s = time.monotonic()
        try:
            entries = await self._bus.kv.all(subjects.REPLICAS)
        except BusUnavailable as error:
            log_.debug("catalogue.stale", error=error.message)
            return
        finally:
            self._refreshed_s = started_s
        replicas = [replica for value in entries.values() if (replica := _parse(value))]
        self.snapshot = Snapshot(tuple(sorted(replicas, key=lambda r: r.worker_id)))
        for model in self.snapshot.models():
            reports = self._others.setdefault(model, deque(maxlen=self._tuning.reports))
            reports.append(max(0, self.snapshot.busy(model) - self.own[model]))


def _parse(value: bytes) -> Replica | None:
    try:
        return Replica.decode(value)
    except MalformedMessage as error:
        log_.warning("catalogue.malformed", error=error.message)
        return None
