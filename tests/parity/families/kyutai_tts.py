"""Kyutai TTS beside Kyutai's own package, `moshi`."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Final

import numpy as np
from torch import Tensor

from tests.parity.kyutai_cases import CASES, CHECKPOINTS, IDS, PUBLISHED, SEED, TEXT, Case
from tests.parity.material import said
from tests.parity.subject import Subject, asked, golden_noise
from ttscommon.engine.checkpoint import dump_json
from ttscommon.wire.fields import Arrays
from ttscommon.wire.messages import SpeechRequest
from ttsfamilies.base.sampling import Noise
from ttsfamilies.kyutai_tts import synthetic as kyutai_tts
from ttsfamilies.kyutai_tts.config import load_config
from ttsfamilies.kyutai_tts.family import KyutaiTts, load

_LAST: Final = 2  # steps that a frame's last codes are behind its first
# What the reference says of each case.
goldens = partial(said, "kyutai_tts")


def noise_of(codebooks: int) -> type[Noise]:
    """The goldens' noise, in which the text's draw stands behind those of the codes."""
    keyed = golden_noise(IDS)

    class Keyed(keyed):  # type: ignore[valid-type, misc]
        def gumbel(self, draw: int, ids: Tensor | int) -> Tensor:
            found: Tensor = super().gumbel(codebooks if draw < 0 else draw, ids)
            return found

        def rows(self, index: Tensor) -> Noise:
            return Keyed(self.seed[index], self.frame[index])

    return Keyed


def columns(case: Case) -> tuple[Any, int]:
    """The reference's frames [frames, codebooks], and the steps before the first is complete."""
    delay = CHECKPOINTS[case.checkpoint][2]
    return np.array(goldens()[case.name]["codes"], np.int16), int(delay * 12.5) + _LAST


def begun(case: Case) -> list[int]:
    """Steps in which a word began, and that in which the text was over."""
    found = goldens()[case.name]
    return [*(step for _, step in found["words"]), found["end"]]


class KyutaiSubject(Subject[Case]):
    """See Subject."""

    cases = CASES
    speed = SpeechRequest("r", "m", "slt", TEXT)
    environment = "kyutai_tts"
    published_heads: ClassVar = {"backbone": (16, 16, 128)}

    def write(self, folder: Path, checkpoint: str) -> None:
        """One of kyutai_cases.CHECKPOINTS, voices and codec included."""
        codebooks, published, delay, context, asking = CHECKPOINTS[checkpoint]
        heads = kyutai_tts.PUBLISHED_HEADS if published else kyutai_tts.SMALL
        changes: dict[str, Any] = {}
        if published:
            changes = {"num_layers": 1, "hidden_scale": 0.25, "depformer_dim": 32}
            changes |= {"depformer_num_heads": 2, "moshi_name": "dsm_tts_5ea1@7.safetensors"}
        told = kyutai_tts.config(codebooks, heads, audio_delay=delay, context=context, **changes)
        voices = ("slt", "odd/one") if checkpoint == "kyutai" else ("slt",)
        kyutai_tts.write_checkpoint(folder, told, seed=SEED, asking=asking, voices=voices)

    def write_all(self, folder: Path) -> None:
        super().write_all(folder)
        dump_json(folder / PUBLISHED, kyutai_tts.published())

    def load(self, folder: Path) -> KyutaiTts:
        model = load("m", folder)
        model.noise = noise_of(load_config(folder).n_q)
        return model

    def request(self, case: Case) -> SpeechRequest:
        told = {
            "cfg_coef": f"{case.guidance:.1f}",
            "padding_bonus": case.bonus,
            "padding_between": case.between,
            "initial_padding": case.initial,
            "max_padding": case.most,
        }
        return asked(case, case.voice, extra_params=told)

    def prompts(self, case: Case, units: Sequence[Any]) -> tuple[Any, Any]:
        wanted = [(tuple(ids), padding) for ids, _, padding in goldens()[case.name]["entries"]]
        return [(entry.ids, entry.padding) for entry in units], wanted

    def wanted(self, case: Case) -> Arrays:
        codes, silent = columns(case)
        steps = np.array(begun(case))
        count = len(codes)
        ago = np.arange(count)[:, None] + silent - steps
        asked = ((ago >= 0) & (ago <= silent)) * (1 << np.clip(ago, 0, silent))
        return {
            "codes": codes,
            "asked": asked.sum(1).astype(np.int32),
            "coming": self._coming(case, codes),
        }

    def _coming(self, case: Case, codes: Any) -> Any:
        """The first codebook of the two frames behind each: of the last, nothing is known."""
        first = np.append(codes[:, 0], goldens()[case.name]["beyond"])
        return np.stack([first[1:-1], first[2:]], 1).astype(np.int16)


FAMILY: Final = KyutaiSubject()
