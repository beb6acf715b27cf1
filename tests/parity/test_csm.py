"""CSM says what transformers' says: through the engine, alone, among others, joined in mid-flight,
with late text, evicted, and resumed; after turns of several speakers, at small and at published
head counts.

The goldens' noise is numpy's, as everywhere in these tests; it stands in for ours in the draw.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from torch import Tensor

from talker.engine.engine import Engine
from talker.engine.stream import ChunkReady
from talker.family.base import Prepared
from talker.models.csm.family import Csm
from talker.models.csm.request import FRAME
from talker.sampling import Noise
from tests.parity.checkpoints import write_csm_checkpoint
from tests.parity.conftest import GOLDENS
from tests.parity.csm_cases import CASES, CHECKPOINTS, Case, wav
from tests.parity.material import gumbel
from ttscommon.process.metrics import Metrics
from ttscommon.wire.messages import Reference, Sampling, SpeechRequest, Turn
from ttscommon.wire.pieces import Text

Codes = npt.NDArray[np.int16]
Families = Mapping[str, Csm]
WANTED: dict[str, Any] = json.loads((GOLDENS / "csm.json").read_text("utf-8"))
every_case = pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
SOUND = Reference("0" * 16 + "-" + "0" * 64)
AUDIO, AUDIO_END = 128_002, 128_003


class GoldenNoise(Noise):
    """Of the goldens: keyed by seed, frame and codebook."""

    def gumbel(self, draw: int, ids: Tensor | int) -> Tensor:
        rows = [
            gumbel(seed, frame, draw, 2051)
            for seed, frame in zip(self.seed.tolist(), self.frame.tolist(), strict=True)
        ]
        whole = torch.from_numpy(np.stack(rows))
        return whole[:, :ids] if isinstance(ids, int) else whole.gather(1, ids)

    def rows(self, index: Tensor) -> GoldenNoise:
        return GoldenNoise(self.seed[index], self.frame[index])


@pytest.fixture(scope="module")
def families(tmp_path_factory: pytest.TempPathFactory) -> Families:
    folder = tmp_path_factory.mktemp("csm")
    found = {}
    for name in CHECKPOINTS:
        write_csm_checkpoint(folder / name, name)
        found[name] = Csm.load("m", folder / name, device="cpu", dtype="float32")
        found[name].noise = GoldenNoise
    return found


def wanted(case: Case) -> Codes:
    """The reference's frames but for the one that ends them."""
    codes = np.array(WANTED[case.name]["codes"], np.int16)
    return codes[:-1] if ended(case) else codes


def ended(case: Case) -> bool:
    return not any(WANTED[case.name]["codes"][-1][:-1])


def prepared(family: Csm, case: Case, text: str) -> Prepared:
    (hot, subtalker), (k, subtalker_k), (p, subtalker_p) = case.temperature, case.top_k, case.top_p
    turns = [Turn(t.speaker, t.text, SOUND if t.seconds else None) for t in case.turns]
    sounds = [turn.sound() for turn in case.turns]
    request = SpeechRequest(
        case.name,
        "m",
        "",
        text,
        seed=case.seed,
        turns=tuple(turns),
        speaker=case.speaker,
        sampling=Sampling(
            temperature=hot,
            top_k=k,
            top_p=p,
            subtalker_temperature=subtalker,
            subtalker_top_k=subtalker_k,
            subtalker_top_p=subtalker_p,
            max_new_tokens=case.frames,
        ),
    )
    derived = [None if s is None else family.derive(wav(s)) for s in sounds]
    return family.prepare(request, None, derived)


class Run:
    """An engine stepped by hand."""

    def __init__(self, family: Csm) -> None:
        self.family = family
        self.engine = Engine(family, slots=8, blocks=400, metrics=Metrics())
        self.engine.listen(self._listen)
        self.codes: dict[str, list[Codes]] = {}
        self.ended: set[str] = set()

    def _listen(self, events: Any) -> None:
        for key, event in events:
            if isinstance(event, ChunkReady):
                self.codes[key].append(event.arrays["codes"])
                self.engine.acknowledge(key)
            else:
                self.ended.add(key)

    def open(self, case: Case, restored: Codes | None = None, *, late: bool = False) -> None:
        """late: the second half of the text comes three steps later."""
        first = case.text[: len(case.text) // 2] if late else case.text
        made = prepared(self.family, case, first)
        self.codes[case.name] = [] if restored is None else [restored]
        logged = None if restored is None else {"codes": restored}
        units = list(made.read([Text(first)], final=not late))
        self.engine.open(made, logged, units, final=not late)
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
            if self.ended == self.codes.keys():
                return
            self.step()
        raise AssertionError("a stream did not end")

    def said(self, case: Case) -> Codes:
        return np.concatenate(self.codes[case.name])


@every_case
def test_alone_it_says_what_the_reference_says(families: Families, case: Case) -> None:
    run = Run(families[case.checkpoint])
    run.open(case)
    run.finish()
    np.testing.assert_array_equal(run.said(case), wanted(case))


@pytest.mark.parametrize("checkpoint", ["csm", "csm-heads"])
def test_joined_in_mid_flight_late_and_evicted_each_says_the_same(
    families: Families, checkpoint: str
) -> None:
    cases = [case for case in CASES if case.checkpoint == checkpoint]
    run = Run(families[checkpoint])
    for number, case in enumerate(cases):
        run.open(case, late=number % 2 == 1)
        for step in range(2 * number + 2):
            run.step(evict=step == 1)
    run.finish()
    for case in cases:
        np.testing.assert_array_equal(run.said(case), wanted(case), err_msg=case.name)


@every_case
def test_resumed_at_any_frame_it_goes_on_with_the_same(families: Families, case: Case) -> None:
    whole = wanted(case)
    for at in {1, len(whole) // 2, len(whole) - 1}:
        run = Run(families[case.checkpoint])
        run.open(case, whole[:at])
        run.finish()
        np.testing.assert_array_equal(run.said(case), whole)


def test_the_model_ends_its_own_speech() -> None:
    (case,) = [case for case in CASES if case.checkpoint == "csm-ending"]
    assert ended(case)
    assert 3 < len(wanted(case)) < case.frames - 1


def test_ids_that_are_no_codes_are_fed_back_as_drawn() -> None:
    assert max(int(wanted(case).max()) for case in CASES) > 2047


@every_case
def test_a_prompt_is_the_references(families: Families, case: Case) -> None:
    (prompt,) = prepared(families[case.checkpoint], case, "").read([Text(case.text)], final=True)
    theirs = np.array(WANTED[case.name]["prompt"])
    sound = (theirs == AUDIO) | (theirs == AUDIO_END)
    np.testing.assert_array_equal(prompt.text, np.where(sound, FRAME, theirs))
    assert not prompt.codes[theirs == AUDIO_END].any()
