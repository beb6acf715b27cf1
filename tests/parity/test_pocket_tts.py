"""Pocket TTS says what the official package says: told its frames one by one, and by itself;
through the engine alone, among others, joined in mid-flight, evicted, and resumed; in published and
cloned voices, of small and of published heads.

A frame is fed back as floats, so that rounding grows from frame to frame: each is compared with the
reference's frames before it, and a whole run as far as that growth allows. Against ourselves,
frames are the same bits.

The goldens' noise is numpy's, as everywhere in these tests; it stands in for ours in the draw.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from talker.engine.engine import Engine
from talker.engine.stream import ChunkReady
from talker.family.base import Prepared
from talker.family.chunker import ChunkSizes
from talker.models.pocket_tts.family import PocketTts
from talker.sampling import Noise
from tests.parity.conftest import goldens
from tests.parity.csm_cases import wav
from tests.parity.material import GOLDENS
from tests.parity.pocket_cases import CASES, CHECKPOINTS, Case, noise, recording
from tests.parity.pocket_checkpoints import write_pocket_checkpoint
from ttscommon.process.metrics import Metrics
from ttscommon.wire.fields import Arrays, concatenate, cut
from ttscommon.wire.messages import Reference, Sampling, SpeechRequest
from ttscommon.wire.parameters import Value
from ttscommon.wire.pieces import Text

Families = Mapping[str, PocketTts]
WANTED: dict[str, Any] = json.loads((GOLDENS / "pocket_tts.json").read_text("utf-8"))
FRAMES = goldens("pocket_tts")
every_case = pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
SOUND = Reference("0" * 16 + "-" + "0" * 64)
# Of values of about 2, when a frame is told the reference's frames; and by itself.
CLOSE, GROWN = 2e-5, 2e-2


class GoldenNoise(Noise):
    """Of the goldens: keyed by seed and frame."""

    def normal(self, draw: int, count: int) -> Tensor:
        assert (draw, count) == (0, 8)
        rows = zip(self.seed.tolist(), self.frame.tolist(), strict=True)
        return torch.from_numpy(np.stack([noise(seed, frame) for seed, frame in rows]))


@pytest.fixture(scope="module")
def families(tmp_path_factory: pytest.TempPathFactory) -> Families:
    folder = tmp_path_factory.mktemp("pocket")
    found = {}
    for name in CHECKPOINTS:
        write_pocket_checkpoint(folder / name, name)
        found[name] = PocketTts.load("m", folder / name)
        found[name].noise = GoldenNoise
    return found


def wanted(case: Case) -> Arrays:
    """The reference's frames."""
    return {"latent": FRAMES[f"{case.name}/latents"], "passage": FRAMES[f"{case.name}/of"]}


def prepared(family: PocketTts, case: Case) -> Prepared:
    extra: dict[str, Value] = {} if case.after is None else {"frames_after_eos": case.after}
    request = SpeechRequest(
        case.name,
        "m",
        "" if case.seconds else "slt",
        case.text,
        seed=case.seed,
        reference=SOUND if case.seconds else None,
        sampling=Sampling(temperature=case.temperature),
        extra_params=extra,
    )
    reference = family.derive(wav(recording(case))) if case.seconds else None
    return family.prepare(request, reference)


class Run:
    """An engine stepped by hand, which sends every frame by itself."""

    def __init__(self, family: PocketTts) -> None:
        self.family = family
        sizes = ChunkSizes(1, 1)
        self.engine = Engine(family, slots=8, blocks=400, metrics=Metrics(), sizes=sizes)
        self.engine.listen(self._listen)
        self.heard: dict[str, list[Arrays]] = {}
        self.ended: set[str] = set()

    def _listen(self, events: Any) -> None:
        for key, event in events:
            if isinstance(event, ChunkReady):
                self.heard[key].append(event.arrays)
                self.engine.acknowledge(key)
            else:
                self.ended.add(key)

    def open(self, case: Case, restored: Arrays | None = None, *, late: bool = False) -> None:
        """late: the second half of the text comes three steps later."""
        made = prepared(self.family, case)
        first = case.text[: len(case.text) // 2] if late else case.text
        self.heard[case.name] = [] if restored is None else [restored]
        units = list(made.read([Text(first)], final=not late))
        self.engine.open(made, restored, units, final=not late)
        if late:
            for _ in range(3):
                self.step()
            rest = list(made.read([Text(case.text[len(first) :])], final=True))
            self.engine.feed(case.name, rest, final=True)

    def step(self, *, evict: bool = False) -> None:
        self.engine.step()
        for stream in list(self.engine._slots) if evict else ():
            stream.evict()

    def finish(self) -> None:
        for _ in range(5000):
            if self.ended == self.heard.keys():
                return
            self.step()
        raise AssertionError("a stream did not end")

    def said(self, case: Case) -> Arrays:
        return concatenate(self.heard[case.name])


@pytest.fixture(scope="module")
def alone(families: Families) -> dict[str, Arrays]:
    """Every case, by itself."""
    torch.set_num_threads(1)
    found = {}
    for case in CASES:
        run = Run(families[case.checkpoint])
        run.open(case)
        run.finish()
        found[case.name] = run.said(case)
    return found


def equal(one: Arrays, other: Arrays, message: str = "") -> None:
    assert one.keys() == other.keys()
    for name in one:
        np.testing.assert_array_equal(one[name], other[name], err_msg=message)


@every_case
def test_alone_it_says_what_the_reference_says(alone: dict[str, Arrays], case: Case) -> None:
    found, theirs = alone[case.name], wanted(case)
    assert theirs["latent"].std() > 0.5
    np.testing.assert_array_equal(found["passage"], theirs["passage"])
    np.testing.assert_allclose(found["latent"], theirs["latent"], atol=GROWN)


@every_case
def test_told_the_references_frames_each_next_one_is_theirs(
    families: Families, alone: dict[str, Arrays], case: Case
) -> None:
    theirs = {**wanted(case), "left": alone[case.name]["left"]}
    for at in range(1, len(theirs["left"]), 3):
        run = Run(families[case.checkpoint])
        run.open(case, cut(theirs, 0, at))
        while len(run.heard[case.name]) == 1:
            run.step()
        found = run.heard[case.name][1]["latent"][0]
        np.testing.assert_allclose(found, theirs["latent"][at], atol=CLOSE)


@pytest.mark.parametrize("checkpoint", ["pocket", "pocket-small", "pocket-heads"])
def test_joined_in_mid_flight_late_and_evicted_each_says_the_same_bits(
    families: Families, alone: dict[str, Arrays], checkpoint: str
) -> None:
    cases = [case for case in CASES if case.checkpoint == checkpoint]
    run = Run(families[checkpoint])
    for number, case in enumerate(cases):
        run.open(case, late=number % 2 == 1)
        for step in range(2 * number + 2):
            run.step(evict=step == 1)
    run.finish()
    for case in cases:
        equal(run.said(case), alone[case.name], case.name)


@every_case
def test_resumed_at_any_frame_it_goes_on_with_the_same_bits(
    families: Families, alone: dict[str, Arrays], case: Case
) -> None:
    whole = alone[case.name]
    frames = len(whole["left"])
    ending = int(np.flatnonzero(whole["left"] >= 0)[0]) if (whole["left"] >= 0).any() else 1
    for at in {1, ending, ending + 1, frames // 2, frames - 1} - {frames}:
        run = Run(families[case.checkpoint])
        run.open(case, cut(whole, 0, at))
        run.finish()
        equal(run.said(case), whole)


def test_the_model_ends_its_own_speech_and_so_many_frames_follow(alone: dict[str, Arrays]) -> None:
    left = {name: arrays["left"].tolist() for name, arrays in alone.items()}
    assert left["several chunks"].count(0) > 1
    assert left["the usual settings"][-4:] == [-1, 2, 1, 0]
    assert left["few words"][-6:] == [-1, 4, 3, 2, 1, 0]
    assert left["frames behind the end"][-10:] == [-1, 8, 7, 6, 5, 4, 3, 2, 1, 0]


@every_case
def test_a_prompt_is_the_references(families: Families, case: Case) -> None:
    made = prepared(families[case.checkpoint], case).read([Text(case.text)], final=True)
    assert [list(unit.tokens) for unit in made] == WANTED["tokens"][case.name]
