"""Our engine says what the official package says, token for token, whatever happens to a stream."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
import torch
from torch import Tensor

from talker.engine.engine import Engine
from talker.engine.stream import ChunkReady, Event
from talker.models.qwen3_tts.family import Qwen3Tts
from talker.sampling import Noise
from tests.parity.cases import CASES, Case
from tests.parity.conftest import Arrays, Checkpoints
from tests.parity.material import CODEBOOKS, frames, gumbel
from tests.parity.offline import embedding
from ttscommon.engine.runtime import Failed
from ttscommon.process.metrics import Metrics
from ttscommon.wire.fields import concatenate
from ttscommon.wire.messages import Reference, Sampling, SpeechRequest
from ttscommon.wire.pieces import Text

# The official package takes instructions for a small talker, and says nothing of dropping them.
REQUESTS: Final = [(case, index) for case in CASES for index in range(len(case.texts))]
NAMES: Final = [f"{case.name} {index}" for case, index in REQUESTS]
every_request = pytest.mark.parametrize(("case", "index"), REQUESTS, ids=NAMES)
# Of those that tell all text in the prompt, some that stand for the others where text is late.
WHOLE: Final = ("instruction", "in context, whole text", "ends by itself")
LATE: Final = [one for one in REQUESTS if one[0].streaming or one[0].name in WHOLE]
SLOTS: Final = 16
_ANY_HASH: Final = "0" * 64
_SAMPLING: Final = (
    *("temperature", "top_k", "top_p", "repetition_penalty", "max_new_tokens"),
    *("subtalker_temperature", "subtalker_top_k", "subtalker_top_p"),
)


class GoldenNoise(Noise):
    """The goldens' noise in place of our own."""

    def gumbel(self, draw: int, ids: Tensor | int) -> Tensor:
        rows = zip(self.seed.tolist(), self.frame.tolist(), strict=True)
        whole = torch.from_numpy(np.stack([gumbel(*row, draw, 3072) for row in rows]))
        return whole[:, :ids] if isinstance(ids, int) else whole.gather(1, ids)

    def rows(self, index: Tensor) -> GoldenNoise:
        return GoldenNoise(self.seed[index], self.frame[index])


@cache
def family(folder: Path) -> Qwen3Tts:
    found = Qwen3Tts.load("m", folder)
    found.noise = GoldenNoise
    return found


def request_of(case: Case, index: int, name: str = "r", **changes: Any) -> SpeechRequest:
    """A case in our API's terms."""
    wanted = {key: case.options[key] for key in _SAMPLING if key in case.options}
    if not case.options["do_sample"]:
        wanted["temperature"] = 0.0
    if not case.options["subtalker_dosample"]:
        wanted["subtalker_temperature"] = 0.0
    told = case.instructions[index] if case.instructions else ""
    reference = Reference(_ANY_HASH, case.reference_text, case.clone == "x-vector")
    return SpeechRequest(
        name,
        "m",
        case.speakers[index] if case.speakers else "",
        changes.pop("text", case.texts[index]),
        language=case.languages[index],
        seed=case.seed,
        sampling=Sampling(**wanted),
        instructions="" if case.checkpoint == "small" else told,
        reference=reference if case.clone else None,
        whole_text=not case.streaming,
        **changes,
    )


class Bench:
    """An engine turned by hand; every stream's codes by name."""

    def __init__(self, folder: Path, depth: int = 0, blocks: int = 512) -> None:
        self.family = family(folder)
        self.engine = Engine(
            self.family, slots=SLOTS, metrics=Metrics(), blocks=blocks, depth=depth
        )
        self.engine.listen(self._listen)
        self.chunks: dict[str, list[Any]] = {}
        self.prepared: dict[str, Any] = {}
        self.running: set[str] = set()

    def _listen(self, events: Sequence[tuple[str, Event]]) -> None:
        for key, event in events:
            if isinstance(event, ChunkReady):
                self.chunks[key].append(event.arrays)
                self.engine.acknowledge(key)
                continue
            self.running.discard(key)
            if isinstance(event, Failed):
                raise event.error

    def open(self, case: Case, request: SpeechRequest, restored: Any = None) -> None:
        reference = None
        if case.clone:
            net = self.family._net
            reference = {"speaker": embedding(net.codec.embedding_dim)}
            reference["codes"] = frames(case.reference_frames, 5).astype(np.int16)
        prepared = self.family.prepare(request, reference)
        units = list(prepared.read([Text(request.text)], final=request.text_final))
        name = request.request_id
        self.chunks[name] = [] if restored is None else [restored]
        self.prepared[name] = prepared
        self.running.add(name)
        self.engine.open(prepared, restored, units, final=request.text_final)

    def feed(self, name: str, text: str, *, final: bool = False) -> None:
        units = list(self.prepared[name].read([Text(text)], final=final))
        self.engine.feed(name, units, final=final)

    def run(self) -> None:
        for _ in range(3000):
            if not self.running:
                return
            self.engine.step()
        raise AssertionError("a stream did not end")

    def codes(self, name: str = "r") -> Any:
        return concatenate(self.chunks[name])["codes"]


def wanted(talker_goldens: Arrays, case: Case, index: int) -> Any:
    return talker_goldens[f"{case.name}/{index}/codes"].reshape(-1, CODEBOOKS)


@every_request
def test_alone(case: Case, index: int, checkpoints: Checkpoints, talker_goldens: Arrays) -> None:
    bench = Bench(checkpoints[case.checkpoint])
    bench.open(case, request_of(case, index))
    bench.run()
    assert bench.codes().tolist() == wanted(talker_goldens, case, index).tolist()


@pytest.mark.parametrize("checkpoint", ["custom", "small", "design", "base", "ending"])
def test_together_joined_in_mid_flight(
    checkpoint: str, checkpoints: Checkpoints, talker_goldens: Arrays
) -> None:
    bench = Bench(checkpoints[checkpoint], depth=checkpoint == "base")
    mine = [(case, index) for case, index in REQUESTS if case.checkpoint == checkpoint]
    for number, (case, index) in enumerate(mine):
        while len(bench.running) == SLOTS:
            bench.engine.step()
        bench.open(case, request_of(case, index, f"r{number}"))
        bench.engine.step()
    bench.run()
    for number, (case, index) in enumerate(mine):
        assert bench.codes(f"r{number}").tolist() == wanted(talker_goldens, case, index).tolist()


@pytest.mark.parametrize(
    ("case", "index"),
    LATE,
    ids=[f"{case.name} {index}" for case, index in LATE],
)
def test_text_that_arrives_late_and_a_cache_that_is_taken_away(
    case: Case, index: int, checkpoints: Checkpoints, talker_goldens: Arrays
) -> None:
    bench = Bench(checkpoints[case.checkpoint], depth=1)
    bench.open(case, request_of(case, index, text="", text_final=False))
    text = case.texts[index]
    for at in range(0, len(text), 5):
        bench.feed("r", text[at : at + 5])
        bench.engine.step()
    bench.feed("r", "", final=True)
    for step in range(2000):
        if not bench.running:
            break
        bench.engine.step()
        if step % 17 == 11:
            for stream in bench.engine._slots:
                stream.evict()
    assert bench.codes().tolist() == wanted(talker_goldens, case, index).tolist()


@every_request
def test_resumed(case: Case, index: int, checkpoints: Checkpoints, talker_goldens: Arrays) -> None:
    """Behind the first frame and in the middle; in two of the cases, behind every one."""
    codes = wanted(talker_goldens, case, index)
    every = case.name in ("streamed text, shorter than its speech", "x-vector")
    cuts = range(len(codes)) if every else {1, len(codes) // 2}
    bench = Bench(checkpoints[case.checkpoint])
    for at in cuts:
        restored = {"codes": codes[:at], "padded": np.zeros(at, np.uint8)} if at else None
        while len(bench.running) == SLOTS:
            bench.engine.step()
        bench.open(case, request_of(case, index, f"r{at}"), restored)
    bench.run()
    for at in cuts:
        assert bench.codes(f"r{at}").tolist() == codes.tolist()
