"""From settings to a warmed-up engine."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Final

from talker.engine.chunker import ChunkSizes
from talker.engine.engine import Caches, ChunkReady, Engine, Event, Failed
from talker.engine.scheduler import POLICIES, Limits
from talker.models.base import TalkerModel
from talker.settings import TalkerSettings
from ttscommon.messages import SpeechRequest
from ttscommon.metrics import Metrics

_WARM_UP_TEXT: Final = "Nobody hears this first sentence, and that is its use."
_WARM_UP_CHORUS: Final = "Nor this."
_WARM_UP_STREAMS: Final = (1, 4, 16)


def build_engine(
    settings: TalkerSettings,
    metrics: Metrics,
    *,
    beat: Callable[[], None] = lambda: None,
    died: Callable[[], object] = lambda: None,
) -> Engine:
    """The engine that `settings` describe, warmed up and not yet started; raises VoiceError."""
    model, caches = load_model(settings)
    return Engine(
        model,
        caches,
        blocks=settings.kv_blocks,
        slots=settings.slots,
        metrics=metrics,
        sizes=ChunkSizes(settings.initial_codec_chunk_frames, settings.codec_chunk_frames),
        limits=Limits(settings.batch_streams, settings.batch_positions),
        policy=POLICIES[settings.policy],
        beat=beat,
        died=died,
    )


def load_model(settings: TalkerSettings) -> tuple[TalkerModel, Caches | None]:
    """The settings' model and its caches, warmed up; raises VoiceError."""
    if settings.engine == "fake":
        from talker.models.fake import FakeModel

        return FakeModel.load(settings.model, settings.fake_curve), None
    import torch

    from talker.engine.kv import PagedCaches
    from talker.models import load

    torch.set_num_threads(settings.threads)
    model = load(settings.model, settings.voice_dir)
    caches = PagedCaches(model.spec.caches, settings.kv_blocks)
    _warm_up(model, caches, settings.kv_blocks)
    return model, caches


def _warm_up(model: TalkerModel, caches: Caches, blocks: int) -> None:
    """Speak to nobody, so that no listener pays for what happens only once.

    What a round takes is then known, alone and in a batch, before the first request is admitted.
    """
    _speak(model, caches, blocks, _WARM_UP_TEXT, streams=1)
    model.measured_round_s = {
        streams: _speak(model, caches, blocks, _WARM_UP_CHORUS, streams)
        for streams in _WARM_UP_STREAMS
    }


def _speak(model: TalkerModel, caches: Caches, blocks: int, text: str, streams: int) -> float:
    """Speak `text` in so many streams at once; returns the mean seconds of a round."""
    engine = Engine(model, caches, blocks=blocks, slots=streams, metrics=Metrics())
    voice = model.spec.voices[0].id
    requests = [SpeechRequest(str(i), model.spec.name, voice, text) for i in range(streams)]
    over: list[Event] = []
    frames = 0

    def listen(request_id: str, event: Event) -> None:
        nonlocal frames
        if isinstance(event, ChunkReady):
            frames += len(next(iter(event.arrays.values())))
            engine.acknowledge(request_id)
        else:
            over.append(event)

    began_s = time.perf_counter()
    for request in requests:
        engine.open(request, None, partial(listen, request.request_id))
    while len(over) < streams:
        engine.step()
    took_s = time.perf_counter() - began_s
    for event in over:
        if isinstance(event, Failed):
            raise event.error
    return streams * took_s / frames
