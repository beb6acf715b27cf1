"""Speech as listeners hear it, without the silence in front: judges compare it with the whole.

The frames are those of the service's engine, one text at a time.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch

from talker.engine.engine import Engine
from talker.loading import load_family
from talker.settings import TalkerSettings
from talker.synthesis import synthesise
from ttscommon.process.metrics import Metrics
from ttscommon.wire.fields import Array
from ttscommon.wire.messages import SpeechRequest
from ttsfamilies.vesper.codec.codec import spec_of
from ttsfamilies.vesper.codec.layers import SAMPLE_RATE
from ttsfamilies.vesper.codec.net import VesperDecoder
from vocoder.engine.lead import Lead
from vocoder.pcm import to_pcm
from voicetrain.corpus import held_out
from voicetrain.progress import Progress
from voicetrain.vesper.evaluate import write_report
from voicetrain.vesper.judges import Judges
from voicetrain.vesper.scores import Scores
from voicetrain.vesper.speak import sound
from voicetrain.vesper.voice import Voice

_BLOCKS: Final = 256


def judge_onsets(folder: Path, report_path: Path, limit: int) -> None:
    """Judge the easy set with the silence in front and without. limit: sentences."""
    texts = held_out("easy")[:limit]
    judges, decoder = Judges(report_path.with_suffix(".jsonl")), Voice.load(folder).decoder
    whole, heard = Scores(), Scores()
    silent_s: list[float] = []
    progress = Progress("onsets", len(texts))
    for text, codes in zip(texts, _spoken(folder, texts), strict=True):
        pcm = sound(decoder, codes)
        lead = _lead(decoder, codes, pcm)
        silent_s.append(lead / SAMPLE_RATE)
        whole.add(judges, text, pcm, dnsmos=False)
        heard.add(judges, text, pcm[lead:], dnsmos=False)
        progress.report(len(silent_s))
    report: dict[str, Any] = {
        "whole": whole.report(),
        "heard": {**heard.report(), "beside whole": heard.beside(whole)},
        "silent seconds in front": np.quantile(silent_s, (0.05, 0.5, 0.95)).tolist(),
    }
    write_report(report, report_path)


def _lead(decoder: VesperDecoder, codes: torch.Tensor, pcm: Array) -> int:
    """Samples that a listener is not sent."""
    lead = Lead(spec_of("v", decoder, ()))
    lead.begin({"codes": codes.numpy()})
    lead.hear(to_pcm(pcm))
    return lead.samples


def _spoken(folder: Path, texts: Sequence[str]) -> list[torch.Tensor]:
    """[frames, 4] codes of each text."""
    family = load_family(TalkerSettings(model="v", voice_dir=folder, threads=1))
    engine = Engine(family, slots=1, blocks=_BLOCKS, metrics=Metrics())
    voice = family.spec.voices[0].id
    requests = [SpeechRequest(text, "v", voice, text, seed=n) for n, text in enumerate(texts)]
    found = synthesise(engine, requests)
    return [torch.from_numpy(one.arrays["codes"]).long() for one in found]
