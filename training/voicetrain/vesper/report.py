"""The parts of an evaluation: sets, long texts, presets, paces, reliability."""

import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from talker.engine.engine import Engine
from talker.synthesis import synthesise
from ttscommon.process.metrics import Metrics
from ttscommon.wire.fields import rows
from ttscommon.wire.messages import SpeechRequest
from ttsfamilies.base.codec.base import Work
from ttsfamilies.codecs import load as load_codec
from ttsfamilies.talkers import load as load_talker
from voicetrain.corpus import held_out
from voicetrain.progress import Progress
from voicetrain.vesper.drafts import draft_accuracies
from voicetrain.vesper.evaluate import Evaluation
from voicetrain.vesper.parts import Report
from voicetrain.vesper.stages import MOST_TEXTS
from voicetrain.vesper.text import corpus_texts

PACES: Final = (0.7, 0.85, 1.0, 1.2, 1.4)
TEMPERATURES: Final = (0.0, 0.3, 0.6, 0.9)
FEWER: Final = 40
LONG: Final = 10
TIMED: Final = 8
SEED, OTHER_SEED = 1, 77
_BLOCKS: Final = 256


def texts_of(parts: Iterable[str], sentences: int, endings: int) -> dict[str, int]:
    """How many texts each part is measured on. sentences: of each set; endings: of reliability."""
    fewer = min(FEWER, sentences)
    counts = {"easy": sentences, "hard": sentences, "long": LONG, "reliability": endings}
    counts["speed"] = TIMED
    return {part: counts.get(part, fewer) for part in parts}


def evaluate_voice(evaluation: Evaluation, report: Report, texts: Mapping[str, int]) -> None:
    """Measure the parts that the report lacks, each on so many texts."""
    left = {part: count for part, count in texts.items() if not report.has(part, count)}
    steps = Progress("evaluation", len(left))
    for number, (part, count) in enumerate(left.items(), 1):
        report.put(part, count, MEASURES[part](evaluation, count))
        steps.report(number)


def reliability(evaluation: Evaluation, count: int) -> dict[str, Any]:
    """Runaways, empty outputs and lengths over many texts that nothing was trained on."""
    texts = untrained_texts(count)
    return evaluation.lengths(texts, evaluation.voice.spoken(texts), 1.0)


def untrained_texts(count: int) -> list[str]:
    """Texts that nothing was trained on."""
    trained = set(corpus_texts(MOST_TEXTS, SEED))
    others = [text for text in corpus_texts(MOST_TEXTS, OTHER_SEED) if text not in trained]
    return [*held_out("easy"), *held_out("hard"), *others][:count]


def speed(folder: Path, sentences: int = TIMED) -> dict[str, float]:
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


def _presets(evaluation: Evaluation, count: int) -> dict[str, Any]:
    return {name: evaluation.of_preset(name, count) for name in evaluation.voice.presets}


def _paces(evaluation: Evaluation, count: int) -> dict[str, Any]:
    return {str(pace): evaluation.at_pace(pace, count) for pace in PACES}


def _temperatures(evaluation: Evaluation, count: int) -> dict[str, Any]:
    return {str(t): evaluation.at_temperature(t, count) for t in TEMPERATURES}


MEASURES: Final[Mapping[str, Callable[[Evaluation, int], Any]]] = {
    "speed": lambda evaluation, count: speed(evaluation.voice.folder, count),
    "drafts": lambda evaluation, count: draft_accuracies(
        evaluation.voice, held_out("easy")[:count]
    ),
    "word_starts": Evaluation.word_starts,
    "reliability": reliability,
    "presets": _presets,
    "paces": _paces,
    "temperatures": _temperatures,
    "long": Evaluation.of_long_texts,
    "easy": lambda evaluation, count: evaluation.of_set("easy", count),
    "hard": lambda evaluation, count: evaluation.of_set("hard", count),
}
"""The parts of an evaluation, the shorter ones first."""
