"""Qwen3-TTS beside the official package."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import ClassVar, Final, NamedTuple

import numpy as np

from tests.parity.cases import CASES, CHECKPOINTS, PUBLISHED, SPEED_FRAMES, SPEED_TEXTS
from tests.parity.cases import Case as Call
from tests.parity.material import CODEBOOKS, arrays, embedding, frames
from tests.parity.subject import Subject
from ttscommon.engine.checkpoint import dump_json
from ttscommon.wire.fields import Arrays, Derived
from ttscommon.wire.messages import Reference, Sampling, SpeechRequest
from ttsfamilies.base.runners.model import TalkerModel
from ttsfamilies.qwen3_tts.family import Qwen3Tts, load
from ttsfamilies.qwen3_tts.sizes import PUBLISHED_TEXT_VOCABULARY, codec_config, model_config
from ttsfamilies.qwen3_tts.synthetic import write_checkpoint

_ANY_HASH: Final = "0" * 64
_IDS: Final = 3072
_SAMPLING: Final = (
    *("temperature", "top_k", "top_p", "repetition_penalty", "max_new_tokens"),
    *("subtalker_temperature", "subtalker_top_k", "subtalker_top_p"),
)


class Case(NamedTuple):
    """One text of a call of the official package."""

    call: Call
    at: int

    @property
    def name(self) -> str:
        return f"{self.call.name} {self.at}"

    @property
    def checkpoint(self) -> str:
        return self.call.checkpoint


# Codes and more, by call and text.
goldens = partial(arrays, "talker")


class Qwen3Subject(Subject[Case]):
    """See Subject."""

    cases = tuple(Case(call, at) for call in CASES for at in range(len(call.texts)))
    environment = "official"
    published_heads: ClassVar = {"backbone": (16, 8, 128)}
    loads = staticmethod(load)
    ids = _IDS

    def write(self, folder: Path, checkpoint: str) -> None:
        write_checkpoint(folder, "tiny", **CHECKPOINTS[checkpoint])

    def write_all(self, folder: Path) -> None:
        """And configs of all published sizes, whose tensors are named."""
        super().write_all(folder)
        (folder / "configs").mkdir(exist_ok=True)
        for name, (size, kind) in PUBLISHED.items():
            config = model_config(size, kind, PUBLISHED_TEXT_VOCABULARY)
            dump_json(folder / "configs" / f"{name}.json", config)
        dump_json(folder / "configs" / "codec.json", codec_config("1.7b"))

    def request(self, case: Case) -> SpeechRequest:
        call, at = case
        told = call.instructions[at] if call.instructions else ""
        reference = Reference(_ANY_HASH, call.reference_text, call.clone == "x-vector")
        return SpeechRequest(
            "r",
            "m",
            call.speakers[at] if call.speakers else "",
            call.texts[at],
            language=call.languages[at],
            seed=call.seed,
            sampling=_sampling(call),
            # The official package takes instructions for a small talker, and drops them.
            instructions="" if call.checkpoint == "small" else told,
            reference=reference if call.clone else None,
            whole_text=not call.streaming,
        )

    def spoken_for_speed(self, batch: int) -> Sequence[SpeechRequest]:
        sampling = Sampling(max_new_tokens=SPEED_FRAMES + 1)
        return [
            SpeechRequest(f"r{i}", "m", "vivian", t, language="english", seed=i, sampling=sampling)
            for i, t in enumerate(SPEED_TEXTS[:batch])
        ]

    def derived(self, model: TalkerModel, case: Case) -> Derived:
        if not case.call.clone:
            return Derived()
        assert isinstance(model, Qwen3Tts)
        codes = frames(case.call.reference_frames, 5).astype(np.int16)
        return Derived({"speaker": embedding(model._net.codec.embedding_dim), "codes": codes})

    def wanted(self, case: Case) -> Arrays:
        codes = goldens()[f"{case.call.name}/{case.at}/codes"].reshape(-1, CODEBOOKS)
        return {"codes": codes, "padded": np.zeros(len(codes), np.uint8)}


def _sampling(call: Call) -> Sampling:
    asked = {key: call.options[key] for key in _SAMPLING if key in call.options}
    if not call.options["do_sample"]:
        asked["temperature"] = 0.0
    if not call.options["subtalker_dosample"]:
        asked["subtalker_temperature"] = 0.0
    return Sampling(**asked)


FAMILY: Final = Qwen3Subject()
