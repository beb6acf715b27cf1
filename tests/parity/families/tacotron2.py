"""Tacotron 2 beside torchaudio's, which is told what its prenet drops."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from tests.parity.material import arrays
from tests.parity.subject import Subject, asked
from tests.parity.tacotron2_cases import CASES, PUBLISHED, SEED, WIDE, Case, drawn, ids
from ttscommon.wire.fields import Arrays
from ttscommon.wire.messages import Sampling, SpeechRequest
from ttsfamilies.base.sampling import Noise
from ttsfamilies.base.talker.options import LEXICON
from ttsfamilies.base.text.frontend import EnglishFrontend
from ttsfamilies.tacotron2.family import Tacotron2
from ttsfamilies.tacotron2.net import load_net
from ttsfamilies.tacotron2.request import Letters
from ttsfamilies.tacotron2.synthetic import PUBLISHED as WIDTHS
from ttsfamilies.tacotron2.synthetic import TINY, write_checkpoint


class GoldenNoise(Noise):
    """Of the goldens: keyed by seed, frame and layer."""

    def uniform(self, draw: int, count: int) -> Tensor:
        rows = zip(self.seed.tolist(), self.frame.tolist(), strict=True)
        return torch.from_numpy(np.stack([drawn(*row, draw, count) for row in rows]))


@cache
def letters() -> Letters:
    """What reads texts, loaded once."""
    return Letters(EnglishFrontend.load(LEXICON))


class TacotronSubject(Subject[Case]):
    """See Subject. Frames are fed back as floats, so that rounding grows with each."""

    cases = CASES
    environment = "tacotron2"
    atol = 1e-3

    def write(self, folder: Path, checkpoint: str) -> None:
        """One of the checkpoints of the cases, codec included."""
        write_checkpoint(folder, seed=SEED, sizes=WIDTHS if checkpoint == PUBLISHED else TINY)

    def write_all(self, folder: Path) -> None:
        super().write_all(folder)
        self.write(folder / WIDE.checkpoint, WIDE.checkpoint)

    def load(self, folder: Path) -> Tacotron2:
        model = Tacotron2("m", *load_net(folder, "cpu"), letters())
        model.noise = GoldenNoise
        return model

    def request(self, case: Case) -> SpeechRequest:
        temperature = None if case.dropout else 0.0  # which this family has no use for
        sampling = Sampling(temperature=temperature, max_new_tokens=case.limit)
        told = {"prenet_dropout": case.dropout, "gate_threshold": case.threshold}
        return asked(case, "slt", sampling=sampling, extra_params=told)

    def prompts(self, case: Case, units: Sequence[Any]) -> tuple[Any, Any]:
        return [list(one.ids) for one in units], [ids(told) for told in case.told]

    def wanted(self, case: Case) -> Arrays:
        found = {
            name: arrays("tacotron2")[f"{case.name}/{name}"]
            for name in ("mel", "place", "of", "ends")
        }
        of = found["of"].astype(np.int32)
        return {
            "mel": found["mel"].astype(np.float32),
            "begins": np.diff(of, prepend=-1).astype(np.uint8),
            "place": found["place"].astype(np.int32),
            "ends": found["ends"],
            "passage": of,
        }


FAMILY: Final = TacotronSubject()
