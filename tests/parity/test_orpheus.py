"""Orpheus says what transformers' Llama says with the same mask of ids: through the engine, alone,
among others, joined in mid-flight, evicted, and resumed.

The goldens' noise is numpy's, as everywhere in these tests; it stands in for ours in the draw.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from torch import Tensor

from antiphon_bench.synthetic.orpheus import PUBLISHED_HEADS, write_checkpoint
from talker.engine.engine import Engine
from talker.engine.stream import ChunkReady
from talker.models.orpheus import family as orpheus
from talker.models.orpheus.config import CODES, END_SPEECH
from talker.models.orpheus.net import load_net
from talker.models.orpheus.request import prompt_ids
from talker.models.orpheus.stream import ids_of
from talker.models.shared.tokenizer import TextTokenizer
from talker.sampling import Noise
from tests.parity.conftest import GOLDENS
from tests.parity.material import gumbel
from tests.parity.orpheus_cases import CASES, SEED, Case
from ttscommon.process.metrics import Metrics
from ttscommon.wire.messages import Sampling, SpeechRequest
from ttscommon.wire.pieces import Text

Codes = npt.NDArray[np.int16]
WANTED: dict[str, Any] = json.loads((GOLDENS / "orpheus.json").read_text("utf-8"))
every_case = pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])


class GoldenNoise(Noise):
    """Of the goldens: keyed by seed and step."""

    def gumbel(self, draw: int, ids: Tensor | int) -> Tensor:
        count = CODES + 1
        rows = [
            gumbel(seed, step, draw, count)
            for seed, step in zip(self.seed.tolist(), self.frame.tolist(), strict=True)
        ]
        whole = torch.from_numpy(np.stack(rows))
        return whole[:, :ids] if isinstance(ids, int) else whole.gather(1, ids)

    def rows(self, index: Tensor) -> GoldenNoise:
        return GoldenNoise(self.seed[index], self.frame[index])


@pytest.fixture(autouse=True)
def _golden_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(orpheus, "Noise", GoldenNoise)


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> dict[str, orpheus.Orpheus]:
    folder = tmp_path_factory.mktemp("orpheus")
    found = {}
    for case in {case.folder: case for case in CASES}.values():
        path, heads = folder / case.folder, PUBLISHED_HEADS if case.published_heads else {}
        write_checkpoint(path, seed=SEED, ending=case.ending, shard_bytes=1_000_000, heads=heads)
        found[case.folder] = orpheus.Orpheus.load("m", path, device="cpu", dtype="float32")
    return found


def wanted(case: Case) -> Codes:
    """The reference's whole frames."""
    ids = WANTED[case.name]["ids"]
    ids = ids[: ids.index(END_SPEECH)] if END_SPEECH in ids else ids
    offsets = ids_of(np.zeros((1, 7), np.int16))
    return (np.array(ids).reshape(-1, 7) - offsets).astype(np.int16)


def request(case: Case, name: str) -> SpeechRequest:
    sampling = Sampling(
        temperature=case.temperature,
        top_k=case.top_k,
        top_p=case.top_p,
        repetition_penalty=case.penalty,
        max_new_tokens=case.tokens,
    )
    return SpeechRequest(name, "m", case.voice, case.text, seed=case.seed, sampling=sampling)


class Run:
    """An engine stepped by hand."""

    def __init__(self, family: orpheus.Orpheus) -> None:
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

    def open(self, case: Case, restored: Codes | None = None) -> None:
        prepared = self.engine.family.prepare(request(case, case.name))
        units = list(prepared.read([Text(case.text)], final=True))
        self.codes[case.name] = [] if restored is None else [restored]
        logged: dict[str, Any] | None = None
        if restored is not None:
            logged = {"codes": restored, "passage": np.zeros(len(restored), np.int32)}
        self.engine.open(prepared, logged, units, final=True)

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
def test_alone_it_says_what_the_reference_says(
    checkpoints: dict[str, orpheus.Orpheus], case: Case
) -> None:
    run = Run(checkpoints[case.folder])
    run.open(case)
    run.finish()
    np.testing.assert_array_equal(run.said(case), wanted(case))


def test_joined_in_mid_flight_and_evicted_each_says_the_same(
    checkpoints: dict[str, orpheus.Orpheus],
) -> None:
    cases = [case for case in CASES if case.folder == CASES[0].folder]
    run = Run(checkpoints[CASES[0].folder])
    for number, case in enumerate(cases):
        run.open(case)
        for step in range(5 * number + 3):
            run.step(evict=step == 2)
    run.finish()
    for case in cases:
        np.testing.assert_array_equal(run.said(case), wanted(case), err_msg=case.name)


@every_case
def test_resumed_at_any_frame_it_goes_on_with_the_same(
    checkpoints: dict[str, orpheus.Orpheus], case: Case
) -> None:
    whole = wanted(case)
    for at in range(1, len(whole), 3):
        run = Run(checkpoints[case.folder])
        run.open(case, whole[:at])
        run.finish()
        np.testing.assert_array_equal(run.said(case), whole)


def test_the_model_ends_its_own_speech(checkpoints: dict[str, orpheus.Orpheus]) -> None:
    (case,) = [case for case in CASES if case.ending != 1.0]
    assert WANTED[case.name]["ids"][-1] == END_SPEECH
    assert len(wanted(case)) * 7 < case.tokens


@every_case
def test_a_prompt_is_the_packages(tmp_path: Path, case: Case) -> None:
    write_checkpoint(tmp_path, seed=SEED)
    found = prompt_ids(TextTokenizer.load(tmp_path), case.voice, case.text)
    assert list(found) == WANTED[case.name]["prompt"]


def test_a_checkpoint_in_shards_is_the_same_network(tmp_path: Path) -> None:
    for name, most in (("whole", 10**9), ("shards", 1_000_000)):
        write_checkpoint(tmp_path / name, seed=SEED, shard_bytes=most)
    one, other = (load_net(tmp_path / name, "cpu", "float32") for name in ("whole", "shards"))
    assert len(list((tmp_path / "shards").glob("*.safetensors"))) > 1
    for key, tensor in one.state_dict().items():
        assert torch.equal(tensor, other.state_dict()[key])
