"""Models and voices of the live workers, as they report them themselves. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from gateway.errors import ModelLoading, Unavailable
from gateway.requests.aliases import DEFAULT, RETIRED_MODELS, RETIRED_VOICES
from ttscommon.wire import parameters
from ttscommon.wire.errors import UnknownModel, UnknownVoice
from ttscommon.wire.replicas import MANY, Model, Replica, Voice
from ttscommon.wire.subjects import STAGES, StageName


@dataclass(frozen=True)
class ReplicaSnapshot:
    """The replicas that lived at the last refresh; every question to it is a method."""

    replicas: tuple[Replica, ...] = ()
    _live: dict[tuple[StageName, str], tuple[Replica, ...]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def models(self) -> dict[str, Model]:
        """By name, everything that a talker serves; voices come from the workers that list them."""
        found: dict[str, Model] = {}
        for replica in self._serving("talker"):
            for model in replica.models:
                found.setdefault(model.name, model)
        return dict(sorted(found.items()))

    def live(self, stage: StageName, model: str) -> tuple[Replica, ...]:
        """The replicas of `stage` that take jobs of `model`; remembered, as it is asked for many
        times a request.
        """
        if (known := self._live.get((stage, model))) is None:
            serving = self._serving(stage)
            known = tuple(r for r in serving if any(m.name == model for m in r.models))
            self._live[stage, model] = known
        return known

    def busy(self, model: str) -> int:
        """Streams that the talkers of `model` report."""
        return sum(r.slots - r.free for r in self.live("talker", model))

    def memory(self, model: str) -> tuple[bool, int]:
        """Whether both stages have it loaded, and the bytes that it takes, where that is known."""
        loaded = [[r for r in self.live(stage, model) if r.loaded] for stage in STAGES]
        return all(loaded), sum(r.memory_bytes for stage in loaded for r in stage)

    def model(self, name: str, preferred: str) -> Model:
        """The model called `name`, or the default one; raises UnknownModel or Unavailable."""
        models = self.models()
        wanted = preferred if name == DEFAULT else name
        if wanted not in models and wanted in self.loading("talker"):
            raise ModelLoading(
                f"a talker is loading '{wanted}': try again in a moment", param="model"
            )
        if not models:
            raise Unavailable("no talker is running: nothing can be spoken yet")
        if name == DEFAULT:
            return models.get(preferred) or next(iter(models.values()))
        if name not in models:
            name = RETIRED_MODELS.get(name, name)
        if name not in models:
            known = ", ".join(models)
            raise UnknownModel(f"there is no model '{name}'; try {known}", param="model")
        return models[name]

    def voice(self, model: Model, voice_id: str) -> Voice:
        """See `voice_of`; the UnknownVoice names the model that has it, if another does."""
        try:
            return voice_of(model, voice_id)
        except UnknownVoice as error:
            for other in self.models().values():
                if any(voice.id == voice_id for voice in other.voices):
                    text = f"{error.message}, or ask for the model '{other.name}', which has it"
                    raise UnknownVoice(text, param="voice") from error
            raise

    def serves_all_of(self, other: ReplicaSnapshot) -> bool:
        """Whether each stage has a replica of every model that it has there."""
        return self._served() >= other._served()

    def _served(self) -> set[tuple[StageName, str]]:
        return {(s, model.name) for s in STAGES for r in self._serving(s) for model in r.models}

    def named(self, stage: StageName) -> set[str]:
        """Models that `stage` serves, or will in a moment."""
        return {m.name for r in self._serving(stage) for m in r.models} | self.loading(stage)

    def loading(self, stage: StageName) -> set[str]:
        """Models that replicas of `stage` have not finished loading."""
        return {r.loading for r in self.replicas if r.stage == stage and r.loading}

    def _serving(self, stage: StageName) -> Iterable[Replica]:
        return (r for r in self.replicas if r.stage == stage and not r.draining)


def voice_of(model: Model, voice_id: str) -> Voice:
    """The voice called `voice_id`, its heir, or the model's first; raises UnknownVoice.

    A model that clones speaks with voices that clients made of recordings as well, its own names
    first. One without any speaks as it is told to, and then the name says nothing.
    """
    for wanted in (voice_id, RETIRED_VOICES.get(voice_id)):
        for voice in model.voices:
            if wanted in (DEFAULT, voice.id):
                return voice
    if model.blends:
        return _blended(model, voice_id)
    clones = "ref_audio" in model.accepts
    if clones or not model.voices:
        named = voice_id if clones and voice_id != DEFAULT else ""
        return Voice(named, named, MANY)
    known = ", ".join(voice.id for voice in model.voices)
    raise UnknownVoice(f"there is no voice '{voice_id}'; try {known}", param="voice")


def presets_of(model: Model, voice: Voice) -> tuple[str, ...]:
    """The model's own voices that a voice is or is mixed of; none for one made of a recording."""
    known = tuple(one.id for one in model.voices)
    if voice.id in known:
        return (voice.id,)
    return tuple(name for name, _ in parameters.parse(voice.id, known)) if model.blends else ()


def _blended(model: Model, voice_id: str) -> Voice:
    """A voice that is mixed of several, with the language of the first."""
    known = {voice.id: voice for voice in model.voices}
    first, *_ = parameters.parse(voice_id, known)
    return Voice(voice_id, voice_id, known[first[0]].language)
