"""From settings to a warmed-up engine."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final

from talker.adapters import AdapterLibrary, with_adapters
from talker.engine.draft_lengths import DraftLengths, plain
from talker.engine.engine import Engine
from talker.engine.scheduler import POLICIES
from talker.engine.sizing import Memory, kv_blocks
from talker.settings import TalkerSettings
from talker.synthesis import synthesise
from ttscommon.engine.checkpoint import CheckpointError
from ttscommon.engine.lazy import keep_memory
from ttscommon.process.metrics import Metrics
from ttscommon.process.startup import Startup
from ttscommon.wire.fields import rows
from ttscommon.wire.messages import Sampling, SpeechRequest
from ttsfamilies.base.talker.base import Family
from ttsfamilies.base.talker.blocks import BLOCK_POSITIONS
from ttsfamilies.base.talker.served import ServedFamily
from ttsfamilies.base.talker.streams import Runner

# A round of more streams is predicted from these, and measured when it happens.
_WARM_UP_STREAMS: Final = (1, 4)
# Of a model that says itself how long it speaks.
_WARM_UP_FRAMES: Final = 24


def build_engine(
    settings: TalkerSettings,
    metrics: Metrics,
    *,
    beat: Callable[[], None] = lambda: None,
    died: Callable[[], object] = lambda: None,
) -> Engine:
    """The engine that `settings` describe, warmed up and not yet started.

    Raises VoiceError or DeviceError.
    """
    startup = metrics.startup
    family = read_family(settings, startup)
    spec, blocks = family.spec, blocks_of(settings, family)
    runner = _warm_runner(settings, family, blocks, startup)
    return Engine(
        family,
        blocks=blocks,
        depth=family.depth,
        runner=runner,
        slots=settings.slots,
        metrics=metrics,
        sizes=spec.chunks.sizes(
            spec.frame_rate_hz,
            initial=settings.initial_codec_chunk_frames,
            regular=settings.codec_chunk_frames,
        ),
        limits=settings.limits,
        policy=POLICIES[settings.policy],
        draft_lengths=DraftLengths if settings.drafts else plain,
        keep=settings.prefix_blocks,
        beat=beat,
        died=died,
    )


def load_family(settings: TalkerSettings) -> Family:
    """The settings' model, warmed up; raises VoiceError or DeviceError."""
    family, startup = read_family(settings), Startup()
    _warm_runner(settings, family, blocks_of(settings, family), startup)
    return family


def read_family(settings: TalkerSettings, startup: Startup | None = None) -> Family:
    """The settings' model, not yet warmed up; raises VoiceError or DeviceError."""
    startup = startup or Startup()
    if settings.engine == "fake":
        from ttsfamilies.fake.talker import FakeModel

        return FakeModel.load(settings.model, settings.fake_curve)
    with startup.part("import"):
        import torch

        from ttsfamilies.talkers import load

    torch.set_num_threads(settings.threads)
    keep_memory()
    with startup.part("load"):
        family = load(
            settings.model,
            settings.voice_dir,
            pads=settings.late_text == "pad",
            device=settings.device,
            lexicon=settings.lexicon_dir,
            adapters=settings.adapters,
            adapter_rank=settings.adapter_rank,
            codec=settings.codec_dir,
            weights=settings.weights,
        )
    _describe_adapters(settings, family)
    return ServedFamily(family, guards=settings.runaway_guard)


def _describe_adapters(settings: TalkerSettings, family: Family) -> None:
    """Have the specification name what the folder has; raises CheckpointError."""
    held = family.adapters
    if held is None:
        return
    if held.reserved_bytes > settings.adapter_bytes:
        raise CheckpointError(
            f"{held.slots} adapters of rank {held.most_rank} take {held.reserved_bytes} bytes of"
            " the device: lower ANTIPHON_ADAPTERS or ANTIPHON_ADAPTER_RANK, or raise"
            " ANTIPHON_ADAPTER_BYTES"
        )
    library = AdapterLibrary.of(settings.adapter_dir, held, settings.adapter_bytes)
    family.spec = with_adapters(family.spec, library, settings.voice_adapters)


def blocks_of(settings: TalkerSettings, family: Family) -> int:
    """Of the KV cache that the settings give this model; raises VoiceError."""
    return kv_blocks(
        family.spec,
        Memory(
            *(settings.kv_blocks, settings.kv_bytes),
            *(family.free_bytes(), settings.device_sharers),
        ),
        settings.slots,
        family.cache_itemsize,
    )


def _warm_runner(settings: TalkerSettings, family: Family, blocks: int, startup: Startup) -> Runner:
    """What will compute for all slots, with all recorded and the examples spoken.

    It is the one that serves: another would hold a cache and recordings of its own.
    """
    if family.spec.caches:
        family.fit(blocks * BLOCK_POSITIONS)
    most = max(settings.slots, *_WARM_UP_STREAMS)
    rows = 2 * most if family.depth else most
    with startup.part("record"):
        runner = family.runner(rows, blocks if family.spec.caches else 0, family.depth)
        runner.record(min(settings.slots, settings.batch_streams), settings.batch_positions)
    if settings.engine != "fake":
        with startup.part("warm_up"):
            _warm_up(family, runner, blocks)
    return runner


def _warm_up(family: Family, runner: Runner, blocks: int) -> None:
    """Speak its examples, so that no request pays for what happens only once.

    What a round takes is then known, alone and in a batch, before the first request is admitted.
    """
    first, *others = family.examples
    _round_s(family, runner, blocks, [first], streams=1)
    measured = {
        streams: _round_s(family, runner, blocks, others or [first], streams)
        for streams in _WARM_UP_STREAMS
    }
    family.measured_round_s = {n: taken_s for n, taken_s in measured.items() if taken_s is not None}


def _round_s(
    family: Family, runner: Runner, blocks: int, texts: Sequence[str], streams: int
) -> float | None:
    """Speak `texts` in so many streams at once; returns the mean seconds of a round.

    None for a model that ended at once or said words alone: traffic will tell.
    """
    engine = Engine(
        family, blocks=blocks, slots=streams, depth=family.depth, runner=runner, metrics=Metrics()
    )
    name = family.spec.name
    voice = family.spec.voices[0].id if family.spec.voices else ""
    sampling = Sampling(max_new_tokens=_WARM_UP_FRAMES + 1)
    requests = [
        SpeechRequest(f"warm-up-{i}", name, voice, texts[i % len(texts)], sampling=sampling)
        for i in range(streams)
    ]
    began_s = time.perf_counter()
    spoken = synthesise(engine, requests, reference=family.example_reference())
    took_s = time.perf_counter() - began_s
    frames = sum(rows(one.arrays) for one in spoken)
    return streams * took_s / frames if frames else None
