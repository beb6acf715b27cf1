"""Costs of adapters for a talker: frames a second of one batch, with none and with several of them.

All modules that can be adapted are, with drawn numbers: they sound like nothing.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec
import numpy as np

from talker.engine.engine import Engine
from talker.loading import read_family
from talker.settings import TalkerSettings
from talker.synthesis import synthesise
from ttscommon.cluster.adapters.peft import Lora, Pair
from ttscommon.cluster.adapters.tensors import Stored
from ttscommon.process.metrics import Metrics
from ttscommon.wire.adapters import AdapterRef
from ttscommon.wire.fields import rows
from ttscommon.wire.messages import Sampling, SpeechRequest
from ttsfamilies.base.talker.adapters import Adaptable
from ttsfamilies.base.talker.base import Family

COUNTS: Final = (0, 1, 4, 8)
_TEXT: Final = "The kettle has just boiled, so come in and sit down."
_BLOCKS: Final = 1024
_QUIET: Final = 1e-3


class Adapted(msgspec.Struct, frozen=True, kw_only=True):
    """adapters: that the streams share; None for a talker that is served without any.

    frames_per_s: of all streams together, by the engine's thread's processor time, prompts
    included; of the best of all rounds.
    """

    adapters: int | None
    streams: int
    rank: int
    frames_per_s: float


def compare(
    checkpoint: Path, streams: int = 8, frames: int = 24, rank: int = 16, rounds: int = 3
) -> Iterator[Adapted]:
    """A batch of so many streams, side by side over the numbers of adapters.

    Raises VoiceError for a folder that holds no model which takes adapters.
    """
    settings = TalkerSettings(model="adapters", voice_dir=checkpoint, threads=1)
    without = read_family(settings)
    with_ = read_family(settings.model_copy(update={"adapters": max(COUNTS), "adapter_rank": rank}))
    if with_.adapters is None:
        raise ValueError("this model takes no adapters")
    refs = [_held(with_.adapters, slot, rank) for slot in range(max(COUNTS))]
    best: dict[int | None, float] = {}
    for _ in range(rounds):
        for count in (None, *COUNTS):
            family = without if count is None else with_
            found = _frames_per_s(family, refs[: count or 0], streams, frames)
            best[count] = max(found, best.get(count, 0.0))
    for count, speed in best.items():
        yield Adapted(adapters=count, streams=streams, rank=rank, frames_per_s=round(speed, 2))


def _held(model: Adaptable, slot: int, rank: int) -> AdapterRef:
    """Of all modules, loud enough to be computed and too quiet to be heard."""
    drawn = np.random.default_rng(slot)

    def half(*shape: int) -> Stored:
        values = drawn.standard_normal(shape).astype(np.float32) * np.float32(_QUIET)
        return Stored("F32", shape, memoryview(values.tobytes()))

    pairs = {
        name: Pair(half(rank, inputs), half(outputs, rank), scale=1.0)
        for name, (outputs, inputs) in model.modules.items()
    }
    lora = Lora(f"{slot:064x}", pairs)
    model.put(slot, model.fitted(lora))
    return AdapterRef(f"drawn-{slot}", lora.digest)


def _frames_per_s(family: Family, refs: list[AdapterRef], streams: int, frames: int) -> float:
    engine = Engine(family, slots=streams, blocks=_BLOCKS, metrics=Metrics())
    voice = family.spec.voices[0].id if family.spec.voices else "default"
    requests = [
        SpeechRequest(
            *(f"r{number}", family.spec.name, voice, _TEXT),
            language="mul",
            seed=number,
            sampling=Sampling(max_new_tokens=frames + 1),
            adapter=refs[number % len(refs)] if refs else None,
        )
        for number in range(streams)
    ]
    began_s = time.thread_time()
    spoken = synthesise(engine, requests, reference=family.example_reference())
    took_s = time.thread_time() - began_s
    return sum(rows(one.arrays) for one in spoken) / took_s
