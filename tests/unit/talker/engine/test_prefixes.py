"""Prompts that begin alike are computed once, and nobody hears it."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch

from tests.turning import turn
from tests.unit.ttsfamilies.csm.tiny import tiny as csm
from tests.unit.ttsfamilies.qwen3_tts.tiny import CODEBOOKS, Streamed, _parts
from tests.unit.ttsfamilies.test_conformance import Bench, Heard, on_a_device, same
from ttscommon.engine.runtime import Failed, Finished
from ttscommon.wire.fields import Arrays, Derived
from ttscommon.wire.messages import Reference, Sampling, SpeechRequest, Turn
from ttscommon.wire.pieces import Pause, Piece, Text
from ttsfamilies.base.runners.torch_runner import TorchRunner
from ttsfamilies.base.talker.base import Family
from ttsfamilies.base.talker.served import ServedFamily
from ttsfamilies.qwen3_tts.config import GenerationConfig
from ttsfamilies.qwen3_tts.family import Qwen3Tts
from ttsfamilies.qwen3_tts.net import TalkerNet

# Long enough for blocks of their own: the codes that follow what is said in it.
SAID = "what I say in it is long enough for blocks"


@cache
def _net() -> TalkerNet:
    net, _ = _parts()
    base = TalkerNet(replace(net.config, tts_model_type="base")).eval().requires_grad_(False)
    base.load_state_dict(net.state_dict())
    return base


def clones() -> Qwen3Tts:
    """Speaks with the voices of recordings."""
    torch.set_num_threads(1)
    return Streamed("m", _net(), _parts()[1], GenerationConfig(max_new_tokens=41))


def recording(voice: int, frames: int = 48) -> Arrays:
    drawn = np.random.default_rng(voice)
    size = _net().config.talker_config.hidden_size
    return {
        "speaker": drawn.normal(size=size).astype(np.float32),
        "codes": drawn.integers(0, 2048, (frames, CODEBOOKS)).astype(np.int16),
    }


def pieces_of(number: int) -> Sequence[Piece]:
    if number % 3 == 2:
        return [Text(f"Number {number}."), Pause(0.2), Text("And more.")]
    return [Text(f"This is number {number}" + ", and on" * (number % 4))]


def opened(bench: Bench, number: int, voice: int, name: str = "", frames: int = 48) -> Heard:
    key = name or f"r{number}"
    request = SpeechRequest(
        *(key, "m", "default", ""),
        seed=number,
        sampling=Sampling(max_new_tokens=7),
        reference=Reference("0" * 16 + "-" + "0" * 64, SAID + "!" * voice),
    )
    prepared = bench.engine.family.prepare(request, Derived(recording(voice, frames)))
    heard = bench.heard[key] = Heard()
    units = list(prepared.read(pieces_of(number), final=True))
    bench.engine.open(prepared, None, units, final=True)
    return heard


def bench_of(family: Family, blocks: int = 60, *, shares: bool = True, depth: int = 0) -> Bench:
    bench = Bench(family, max(depth, family.depth), blocks=blocks)
    bench.engine._shares = shares
    return bench


def told(bench: Bench, name: str, **labels: str) -> float:
    return bench.engine.metrics.registry.get_sample_value(name, labels) or 0.0


def prompted(bench: Bench) -> float:
    """Positions of prompts that were computed."""
    return told(bench, "tts_positions_total", kind="prompt")


@cache
def alone(number: int, voice: int) -> Arrays:
    bench = bench_of(ServedFamily(clones(), guards=False), shares=False)
    heard = opened(bench, number, voice)
    bench.run()
    return heard.arrays


@pytest.mark.parametrize("depth", [0, 1])
def test_under_pressure_with_cancels_frames_are_those_of_a_request_alone(depth: int) -> None:
    drawn = random.Random(5)
    bench = bench_of(ServedFamily(clones(), guards=False), 16, depth=depth)
    expected = {}
    for number in range(9):
        voice = drawn.randrange(3)
        heard = opened(bench, number, voice)
        if number % 5 == 4:
            for _ in range(drawn.randrange(9)):
                bench.engine.step()
            bench.engine.cancel(f"r{number}")
            del bench.heard[f"r{number}"]
        else:
            expected[number, voice] = heard
        for _ in range(drawn.randrange(6)):
            turn(bench.engine)
            if drawn.random() < 0.1:
                for stream in bench.engine._slots:
                    bench.engine._evict(stream.key)
    bench.run()
    for which, heard in expected.items():
        assert isinstance(heard.end, Finished)
        same(heard.arrays, alone(*which))


def test_known_voices_are_not_computed_again_and_counted() -> None:
    with_, without = (bench_of(clones(), shares=shares) for shares in (True, False))
    for bench in (with_, without):
        for number in (0, 1, 3):
            opened(bench, number, voice=1)
            bench.run()
    kept = told(with_, "tts_prefix_blocks")
    assert kept >= 2
    assert prompted(without) - prompted(with_) == 2 * kept * 16
    assert told(with_, "tts_prefixes_total", found="false") == 1
    assert told(with_, "tts_prefixes_total", found="true") == 2
    assert told(with_, "tts_shared_positions_total") == 2 * 16 * kept


def test_on_a_device_every_request_is_spoken_and_prefixes_are_found() -> None:
    bench = bench_of(on_a_device(clones))
    for number in (0, 1, 3):
        heard = opened(bench, number, voice=1)
        bench.run()
        assert isinstance(heard.end, Finished)
    assert told(bench, "tts_prefix_blocks")


@pytest.mark.slow
def test_on_a_device_positions_beyond_a_short_reach_are_attended_to() -> None:
    codes = []
    for family in (clones(), on_a_device(clones)):
        bench = bench_of(family, 80)
        heard = opened(bench, 0, voice=1, frames=900)
        bench.run()
        codes.append(heard.arrays["codes"][:4])
    assert prompted(bench) > 900
    # Products over batches of other shapes: as far as ids go the CPU's.
    np.testing.assert_array_equal(codes[0], codes[1])


def test_an_unsound_prefix_fails_those_who_read_it_and_is_made_anew() -> None:
    bench = bench_of(clones())
    runner = bench.engine._runner
    assert isinstance(runner, TorchRunner)
    opened(bench, 0, voice=1)
    bench.run()
    allocator = bench.engine._room._allocator
    assert allocator is not None
    block = next(reversed(allocator._kept))
    cache_ = runner._caches["backbone"]
    cache_.values[:, block * 16 : block * 16 + 16, : cache_.width] = math.nan
    sick = opened(bench, 1, voice=1)
    bench.run()
    assert isinstance(sick.end, Failed)
    well = opened(bench, 1, voice=1, name="well")
    bench.run()
    plain = bench_of(clones(), shares=False)
    expected = opened(plain, 1, voice=1)
    plain.run()
    same(well.arrays, expected.arrays)


def test_turns_of_a_conversation_are_computed_once() -> None:
    said = [Turn(0, "I asked them yesterday, and they said it was fine."), Turn(1, "Was it?")]
    turns = tuple(said * 2)
    family = csm(2)

    def spoken(bench: Bench, number: int, turns: tuple[Turn, ...]) -> Heard:
        key = f"r{number}"
        request = SpeechRequest(key, "m", "", "", seed=number, turns=turns)
        prepared = family.prepare(request, Derived(None, [None] * len(turns)))
        heard = bench.heard[key] = Heard()
        units = list(prepared.read([Text(f"And what did {number} say?")], final=True))
        bench.engine.open(prepared, None, units, final=True)
        bench.run()
        assert isinstance(heard.end, Finished)
        return heard

    shared, apart = bench_of(family), bench_of(family, shares=False)
    for number, given in enumerate((turns, turns[:3])):
        same(spoken(shared, number, given).arrays, spoken(apart, number, given).arrays)
    found = told(shared, "tts_shared_positions_total")
    assert found == prompted(apart) - prompted(shared)
    assert found >= 2 * 16
