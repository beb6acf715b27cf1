"""`python -m tests.evaluation.voice_judged`: the default voice as it is served, judged.

`voicetrain.vesper eval` judges the networks. Here both stages' engines speak with the kernels of
this processor: products of whole numbers, halved weights, steps of many frames.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch

from talker.engine.engine import Engine
from talker.synthesis import synthesise
from ttscommon.process.metrics import Metrics
from ttscommon.wire.messages import SpeechRequest
from ttsfamilies.base.codec.base import Work
from ttsfamilies.codecs import load as load_codec
from ttsfamilies.talkers import load as load_talker
from vocoder.pcm import gain_of, levelled
from voicetrain.corpus import held_out
from voicetrain.vesper.judges import Judges
from voicetrain.vesper.scores import Scores

_TOGETHER = 8


def main() -> None:
    """Print what the judges say of each seed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--voice", type=Path, default=Path("voices/vesper"))
    parser.add_argument("--texts", type=int, default=40)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    told = parser.parse_args()
    torch.set_num_threads(1)
    talker, codec = load_talker("vesper", told.voice), load_codec("vesper", told.voice)
    texts, judges = held_out("easy")[: told.texts], Judges()
    for seed in told.seeds:
        asked = [
            SpeechRequest(f"{seed}-{at}", "vesper", "vesper", text, seed=seed)
            for at, text in enumerate(texts)
        ]
        scores = Scores()
        engine = Engine(talker, slots=_TOGETHER, blocks=600 * _TOGETHER, metrics=Metrics())
        for request, made in zip(asked, synthesise(engine, asked), strict=True):
            frames = {name: made.arrays[name] for name in codec.spec.frame}
            (sound,) = codec.decode([Work(codec.open(request), frames, final=True)])
            gain = gain_of(codec.spec.voices, request.voice, codec.spec.gain_db, request.text)
            scores.add(judges, request.text, levelled(sound, gain), dnsmos=False)
        print(f"seed {seed}:", scores.report(), flush=True)


if __name__ == "__main__":
    main()
