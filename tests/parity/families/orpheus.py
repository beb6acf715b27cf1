"""Orpheus beside transformers' Llama, with the same mask of ids."""

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Final

import numpy as np

from tests.parity.material import GOLDENS
from tests.parity.orpheus_cases import CASES, SEED, SPEED, SPEED_TOKENS, Case
from tests.parity.subject import Subject, golden_noise
from ttscommon.wire.fields import Arrays
from ttscommon.wire.messages import Sampling, SpeechRequest
from ttsfamilies.orpheus.family import CODES, END_SPEECH, Orpheus, audio_ids, load
from ttsfamilies.orpheus.synthetic import PUBLISHED_HEADS, write_checkpoint


@cache
def goldens() -> dict[str, Any]:
    """Prompts and ids, the end included, by case."""
    found: dict[str, Any] = json.loads((GOLDENS / "orpheus.json").read_text("utf-8"))
    return found


class OrpheusSubject(Subject[Case]):
    """See Subject."""

    cases = CASES
    environment = "official"
    published_heads: ClassVar = {"backbone": (24, 8, 128)}
    blocks = 2000  # seven positions a frame

    def write(self, folder: Path, checkpoint: str) -> None:
        case = self.of(checkpoint)[0]
        heads = PUBLISHED_HEADS if case.published_heads else {}
        write_checkpoint(folder, seed=SEED, ending=case.ending, heads=heads)

    def load(self, folder: Path) -> Orpheus:
        model = load("m", folder)
        model.noise = golden_noise(CODES + 1)
        return model

    def request(self, case: Case) -> SpeechRequest:
        sampling = Sampling(
            temperature=case.temperature,
            top_k=case.top_k,
            top_p=case.top_p,
            repetition_penalty=case.penalty,
            max_new_tokens=case.tokens,
        )
        return SpeechRequest("r", "m", case.voice, case.text, seed=case.seed, sampling=sampling)

    def spoken_for_speed(self, batch: int) -> Sequence[SpeechRequest]:
        sampling = Sampling(max_new_tokens=SPEED_TOKENS)
        return [
            SpeechRequest(f"r{i}", "m", SPEED.voice, SPEED.text, seed=i, sampling=sampling)
            for i in range(batch)
        ]

    def wanted(self, case: Case) -> Arrays:
        ids = goldens()[case.name]["ids"]
        ids = ids[: ids.index(END_SPEECH)] if END_SPEECH in ids else ids
        codes = np.array(ids).reshape(-1, 7) - audio_ids(np.zeros((1, 7), np.int16))
        return {"codes": codes.astype(np.int16), "passage": np.zeros(len(codes), np.int32)}


FAMILY: Final = OrpheusSubject()
