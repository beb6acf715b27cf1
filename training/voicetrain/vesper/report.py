"""The whole evaluation as JSON: sets, long texts, presets, paces, temperatures, reliability."""

import time
from pathlib import Path
from typing import Any, Final

from talker.engine.engine import Engine
from talker.models import load as load_talker
from talker.synthesis import synthesise
from ttscommon.fields import rows
from ttscommon.messages import SpeechRequest
from ttscommon.metrics import Metrics
from vocoder.codecs import load as load_codec
from vocoder.codecs.base import Work
from voicetrain.corpus import held_out
from voicetrain.progress import Progress
from voicetrain.vesper.drafts import draft_accuracies
from voicetrain.vesper.evaluate import Evaluation, write_report
from voicetrain.vesper.stages import MOST_TEXTS
from voicetrain.vesper.text import corpus_texts

PACES: Final = (0.7, 0.85, 1.2, 1.4)
TEMPERATURES: Final = (0.0, 0.3, 0.6, 0.9)
FEWER: Final = 40
SEED, OTHER_SEED = 1, 77
_BLOCKS: Final = 256


def evaluate_voice(
    folder: Path, report_path: Path, memory: Path, *, limit: int, texts: int
) -> None:
    """Measure a voice folder. limit: sentences of each set; texts: of the reliability test."""
    evaluation = Evaluation(folder, memory)
    fewer = min(FEWER, limit)
    report: dict[str, Any] = {"bytes": sizes(folder), "speed": speed(folder)}
    steps = Progress("evaluation", 8)

    def done(name: str, value: Any) -> None:
        report[name] = value
        write_report(report, report_path)
        steps.report(len(report) - 2)

    done("sets", {name: evaluation.of_set(name, limit) for name in ("easy", "hard")})
    done("long", evaluation.of_long_texts(max(1, limit // 10)))
    done("reliability", reliability(evaluation, texts))
    done("word_starts", evaluation.word_starts(fewer))
    done("paces", {str(pace): evaluation.at_pace(pace, fewer) for pace in PACES})
    presets = [name for name in evaluation.voice.presets if name != "vesper"]
    done("presets", {name: evaluation.of_preset(name, fewer) for name in presets})
    warmths = {str(t): evaluation.at_temperature(t, fewer) for t in TEMPERATURES}
    done("temperatures", warmths)
    done("drafts", draft_accuracies(evaluation.voice, held_out("easy")[:fewer]))


def reliability(evaluation: Evaluation, count: int) -> dict[str, Any]:
    """Runaways, empty outputs and lengths over many texts that nothing was trained on."""
    trained = set(corpus_texts(MOST_TEXTS, SEED))
    others = [text for text in corpus_texts(MOST_TEXTS, OTHER_SEED) if text not in trained]
    texts = [*held_out("easy"), *held_out("hard"), *others][:count]
    return evaluation.lengths(texts, evaluation.voice.spoken(texts), 1.0)


def speed(folder: Path, sentences: int = 8) -> dict[str, float]:
    """Real-time factors of the services' engines by processor time, one request at a time.

    The talker's has reading the text in it; the decoder's is of the chunks that the talker sent.
    """
    talker = Engine(load_talker("v", folder), slots=1, blocks=_BLOCKS, metrics=Metrics())
    codec = load_codec("v", folder)
    first, *texts = held_out("easy")[: sentences + 1]
    voice = talker.spec.voices[0].id
    synthesise(talker, [SpeechRequest("warm up", "v", voice, first)])
    requests = [SpeechRequest(text, "v", voice, text) for text in texts]
    began = time.process_time()
    spoken = [synthesise(talker, [request])[0] for request in requests]
    talked = time.process_time() - began
    began = time.process_time()
    for one in spoken:
        state, last = codec.open(one.request), len(one.chunks) - 1
        for number, chunk in enumerate(one.chunks):
            frames = {"codes": chunk["codes"]}
            codec.decode([Work(state, frames, final=number == last)])
    decoded = time.process_time() - began
    seconds = sum(rows(one.arrays) for one in spoken) / talker.spec.frame_rate_hz
    return {"talker_rtf": talked / seconds, "decoder_rtf": decoded / seconds}


def sizes(folder: Path) -> dict[str, int]:
    """Bytes of each file of the voice folder."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.stat().st_size for path in files}
