"""Evaluation of an exported voice: what a recogniser understands, lengths, times and speed."""

import json
import multiprocessing
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from talker.text.frontend import EnglishFrontend, Utterance
from voicetrain.codec_stage import Codec
from voicetrain.corpus import held_out
from voicetrain.data import Array
from voicetrain.features import FRAME_SAMPLES, SAMPLE_RATE, log_mel, normalised
from voicetrain.recognise import (
    Heard,
    Recogniser,
    character_error_rate,
    normal_text,
    word_error_rate,
)
from voicetrain.speak import Singer
from voicetrain.synthesis import padded_audio
from voicetrain.teacher import VOICES, Spoken, flite

FRAME_S = FRAME_SAMPLES / SAMPLE_RATE
LENGTH_TOLERANCE = 0.3
LEAST_FRAMES = 3


@dataclass(frozen=True)
class Sentence:
    """One sentence of an evaluation set in one voice."""

    text: str
    voice: int
    seed: int


@dataclass
class Reading:
    """What one system made of the sentences of a set."""

    said: list[str] = field(default_factory=list)
    heard: list[str] = field(default_factory=list)
    voices: list[int] = field(default_factory=list)

    def add(self, sentence: Sentence, heard: Heard) -> None:
        self.said.append(normal_text(sentence.text))
        self.heard.append(heard.text)
        self.voices.append(sentence.voice)

    def report(self) -> dict[str, Any]:
        """WER and CER, in all and by voice."""

        def rates(chosen: list[int]) -> dict[str, Any]:
            said, heard = [self.said[i] for i in chosen], [self.heard[i] for i in chosen]
            return {
                "wer": word_error_rate(said, heard).rounded(),
                "cer": character_error_rate(said, heard).rounded(),
            }

        everything = list(range(len(self.said)))
        by_voice = {
            name: rates([i for i in everything if self.voices[i] == index])
            for index, name in enumerate(VOICES)
            if index in self.voices
        }
        return {**rates(everything), "by_voice": by_voice}


def sentences_of(texts: Sequence[str], voices_each: int) -> list[Sentence]:
    """Every text in `voices_each` of the three voices, voices evenly."""
    return [
        Sentence(text, (i + turn) % len(VOICES), 1000 * turn + i)
        for i, text in enumerate(texts)
        for turn in range(voices_each)
    ]


def word_starts(utterance: Utterance, pointer: Array) -> list[tuple[str, float]]:
    """(word, start_s): when the pointer first stands on the word's first phone or beyond."""
    starts = []
    for word in utterance.words:
        frame = int(np.argmax(pointer >= word.start))
        starts.append((normal_text(word.text), frame * FRAME_S))
    return starts


def timing_errors(told: list[tuple[str, float]], heard: Heard) -> list[float]:
    """Differences in seconds over the words that the recogniser got right, in order."""
    differences, at = [], 0
    for word, start in told:
        for index in range(at, min(at + 4, len(heard.words))):
            if heard.words[index][0] == word:
                differences.append(heard.words[index][1] - start)
                at = index + 1
                break
    return differences


def resynthesised(codec: Codec, singer: Singer, spoken: Spoken) -> Array:
    """The teacher's sound through tokenizer and decoder."""
    mel = normalised(log_mel(torch.from_numpy(padded_audio(spoken))[None]))
    return singer.sound(codec.tokenizer.codes(mel)[0])


class Evaluation:
    """Runs a voice over the held-out sets."""

    def __init__(
        self, folder: Path, codec: Codec | None = None, memory: Path | None = None
    ) -> None:
        self.folder = folder
        self.singer = Singer.load(folder)
        self.frontend = EnglishFrontend.load(folder)
        self.codec = codec
        self.recogniser = Recogniser(memory)

    def of_set(self, name: str, voices_each: int, limit: int | None = None) -> dict[str, Any]:
        """Teacher, codec and full TTS on one held-out set."""
        systems = {"teacher": Reading(), "codec": Reading(), "tts": Reading()}
        ratios: list[float] = []
        errors: list[float] = []
        runaways = 0
        for sentence in sentences_of(held_out(name)[:limit], voices_each):
            spoken = flite().speak(sentence.text, VOICES[sentence.voice])
            utterance = self.frontend.phones(sentence.text)
            sung = self.singer.sing(utterance.phones, sentence.voice, sentence.seed)
            heard = self.recogniser.hear(self.singer.sound(sung.codes, sentence.seed))
            systems["tts"].add(sentence, heard)
            systems["teacher"].add(sentence, self.recogniser.hear(spoken.audio / 32768))
            if self.codec is not None:
                sound = resynthesised(self.codec, self.singer, spoken)
                systems["codec"].add(sentence, self.recogniser.hear(sound))
            ratios.append(len(sung.codes) * FRAME_SAMPLES / len(spoken.audio))
            errors += timing_errors(word_starts(utterance, sung.pointer), heard)
            runaways += sung.runaway
        return {
            "sentences": len(ratios),
            **{key: reading.report() for key, reading in systems.items() if reading.said},
            "runaways": runaways,
            "length_ratio": _summary(ratios),
            "within_30_percent": _share_close(ratios),
            "word_start_error_s": {
                "median_absolute": float(np.median(np.abs(errors))),
                "median": float(np.median(errors)),
                "words": len(errors),
            },
        }

    def stopping(self, texts: Iterable[tuple[int, str]]) -> list["Stop"]:
        """How numbered texts end, without sound; the number gives voice and seed."""
        stops = []
        for number, text in texts:
            voice = number % len(VOICES)
            sung = self.singer.sing(self.frontend.phones(text).phones, voice, number)
            teacher = flite().speak(text, VOICES[voice])
            ratio = len(sung.codes) * FRAME_SAMPLES / len(teacher.audio)
            stops.append(Stop(ratio, sung.runaway, len(sung.codes) < LEAST_FRAMES))
        return stops

    def speed(self, sentences: int = 8) -> dict[str, float]:
        """Real-time factors on this thread, batch 1, by processor time."""
        texts = held_out("easy")[:sentences]
        utterances = [self.frontend.phones(text) for text in texts]
        self.singer.sound(self.singer.sing(utterances[0].phones, 0).codes)
        began = time.process_time()
        codes = [self.singer.sing(u.phones, i % 3).codes for i, u in enumerate(utterances)]
        talked = time.process_time() - began
        began = time.process_time()
        for one in codes:
            self.singer.sound(one)
        seconds = sum(map(len, codes)) * FRAME_S
        return {
            "talker_rtf": talked / seconds,
            "vocoder_rtf": (time.process_time() - began) / seconds,
        }

    def sizes(self) -> dict[str, int]:
        """Bytes of each file of the voice folder."""
        files = sorted(path for path in self.folder.rglob("*") if path.is_file())
        return {str(path.relative_to(self.folder)): path.stat().st_size for path in files}


class Stop(NamedTuple):
    """How one text ended: its length as a ratio to the teacher's, and what went wrong."""

    ratio: float
    runaway: bool
    empty: bool


def _stopping_part(folder: Path, texts: list[tuple[int, str]]) -> list[Stop]:
    torch.set_num_threads(1)
    return Evaluation(folder).stopping(texts)


def reliability(folder: Path, texts: Sequence[str], workers: int) -> dict[str, Any]:
    """Stopping over many texts: runaways, empty outputs, lengths against the teacher's."""
    numbered = list(enumerate(texts, 1))
    parts = [numbered[i::workers] for i in range(workers)]
    context = multiprocessing.get_context("spawn")
    with context.Pool(workers) as pool:
        found = pool.starmap(_stopping_part, [(folder, part) for part in parts])
    stops = [stop for part in found for stop in part]
    ratios = [stop.ratio for stop in stops]
    return {
        "sentences": len(stops),
        "runaways": sum(stop.runaway for stop in stops),
        "empty": sum(stop.empty for stop in stops),
        "within_30_percent": _share_close(ratios),
        "length_ratio": _summary(ratios),
    }


def _share_close(ratios: Sequence[float]) -> float:
    return float(np.mean(np.abs(np.array(ratios) - 1) <= LENGTH_TOLERANCE))


def _summary(values: Sequence[float]) -> dict[str, float]:
    low, middle, high = np.quantile(values, (0.01, 0.5, 0.99))
    return {"p1": float(low), "median": float(middle), "p99": float(high)}


def write_report(report: dict[str, Any], path: Path) -> None:
    """The report as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(report, indent=2) + "\n", "utf-8")
