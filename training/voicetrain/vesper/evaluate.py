"""Evaluation of a voice folder: what judges say of it, how it ends, keeps time, and keeps still."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch

from ttscommon.wire.fields import Array
from ttsfamilies.base.text.segment import utterances
from ttsfamilies.vesper.codec.layers import SAMPLE_RATE, VOICED_HZ
from voicetrain.corpus import held_out
from voicetrain.vesper.codes import Features, Tables, features, quantised
from voicetrain.vesper.judges import Judges, judged, normal_text
from voicetrain.vesper.scores import Scores
from voicetrain.vesper.speak import Spoken, sound
from voicetrain.vesper.teacher import Teacher
from voicetrain.vesper.text import long_texts
from voicetrain.vesper.variation import durations
from voicetrain.vesper.voice import Voice

UNIT_S: Final = 0.025
LENGTH_TOLERANCE: Final = 0.15
LEAST_FRAMES: Final = 3
SAY_AGAIN: Final = 3


@dataclass(frozen=True)
class Reference:
    """The teacher, as far as evaluation needs it."""

    teacher: Teacher
    voice: Voice

    def units(self, text: str, pace: float = 1.0) -> Array:
        """[tokens] the teacher's durations of our tokens, in units of 25 ms."""
        plan = self.teacher.plan(self.voice.tokens(text).ids)
        return durations(plan.units, pace)

    def pitch(self, text: str) -> Array:
        """The pitch of the teacher's voiced hops for our tokens, in Hz."""
        plan = self.teacher.plan(self.voice.tokens(text).ids)
        f0, _ = self.teacher.prosody(plan, durations(plan.units, 1.0))
        return np.asarray(f0[f0 > VOICED_HZ])

    def codec_sound(self, text: str) -> Array:
        """The teacher's prosody for our tokens, through codes and our decoder."""
        ids = self.voice.tokens(text).ids
        plan = self.teacher.plan(ids)
        units = durations(plan.units, 1.0)
        f0, energy = self.teacher.prosody(plan, units)
        with torch.inference_mode():
            encoded = self.voice.net.text(torch.tensor([ids]))[0]
        told = features(
            torch.from_numpy(f0),
            torch.from_numpy(energy),
            encoded.repeat_interleave(torch.from_numpy(units), 0),
        )
        return sound(self.voice.decoder, self._codes(told))

    def _codes(self, told: Features) -> torch.Tensor:
        decoder = self.voice.decoder
        tables = Tables(decoder.pitch_table.flatten(1), decoder.energy_table, *decoder.text_table)
        with torch.inference_mode():
            return quantised(tables, told)


class Evaluation:
    """Runs a voice over the held-out sets. memory: what the judges said before."""

    def __init__(self, folder: Path, memory: Path | None = None) -> None:
        self.voice = Voice.load(folder)
        self.reference = Reference(Teacher(), self.voice)
        self.judges = Judges(memory)

    def of_set(self, name: str, limit: int) -> dict[str, Any]:
        """Teacher, codec and full speech on `easy` or `hard`."""
        texts = held_out(name)[:limit]
        said = self.voice.spoken(texts)
        return {
            "teacher": self._scored(texts, map(self.reference.teacher.sound, texts)),
            "codec": self._scored(texts, map(self.reference.codec_sound, texts)),
            "speech": self._scored(texts, map(self.voice.sound, said)),
        }

    def _scored(
        self, texts: Sequence[str], sounds: Iterable[Array], *, dnsmos: bool = True
    ) -> dict[str, Any]:
        scores = Scores()
        for text, heard in zip(texts, sounds, strict=True):
            scores.add(self.judges, text, heard, dnsmos=dnsmos)
        return scores.report()

    def of_preset(self, preset: str, limit: int) -> dict[str, Any]:
        """Full speech of the easy set in another preset."""
        texts = held_out("easy")[:limit]
        said = self.voice.spoken(texts, preset=preset)
        return self._scored(texts, (self.voice.sound(one, preset) for one in said))

    def at_pace(self, pace: float, limit: int) -> dict[str, Any]:
        """Full speech of the easy set at another pace, beside the teacher's lengths."""
        texts = held_out("easy")[:limit]
        found = self.voice.spoken(texts, pace=pace)
        scores = self._scored(texts, map(self.voice.sound, found), dnsmos=False)
        return {**scores, "lengths": self.lengths(texts, found, pace)}

    def at_temperature(self, temperature: float, limit: int) -> dict[str, Any]:
        """Full speech of the easy set at one temperature, and how much two takes differ."""
        texts = held_out("easy")[:limit]
        takes = [self.voice.spoken(texts, temperature=temperature, seed=seed) for seed in (0, 1)]
        scores = self._scored(texts, map(self.voice.sound, takes[0]), dnsmos=False)
        ratios = [len(a.codes) / len(b.codes) for a, b in zip(*takes, strict=True)]
        return {**scores, "takes_length_deviation": float(np.std(ratios))}

    def of_long_texts(self, limit: int) -> dict[str, Any]:
        """Teacher and full speech on whole paragraphs, and whether pitch or pace drift."""
        texts = long_texts()[:limit]
        parts = [utterances(text) for text in texts]
        said = [self.voice.spoken(each) for each in parts]
        drifts = [self._drift(*one) for one in zip(parts, said, strict=True)]
        whole = (np.concatenate([self.voice.sound(one) for one in each]) for each in said)
        return {
            "teacher": self._scored(texts, map(self.reference.teacher.sound, texts)),
            "speech": self._scored(texts, whole),
            "drift": {name: [d[name] for d in drifts] for name in ("semitones", "pace")},
        }

    def _drift(self, pieces: Sequence[str], found: Sequence[Spoken]) -> dict[str, float]:
        """Change from the first third of a text to the last: pitch and length to the teacher's."""
        third = max(1, len(pieces) // 3)
        parts = slice(0, third), slice(len(pieces) - third, len(pieces))
        pitch, pace = [], []
        for part in parts:
            ours = np.median(np.concatenate([self._pitch(s) for s in found[part]]))
            theirs = np.median(np.concatenate([self.reference.pitch(t) for t in pieces[part]]))
            pitch.append(float(ours / theirs))
            units = sum(int(s.units.sum()) for s in found[part])
            pace.append(units / sum(int(self.reference.units(t).sum()) for t in pieces[part]))
        return {"semitones": 12 * float(np.log2(pitch[1] / pitch[0])), "pace": pace[1] / pace[0]}

    def _pitch(self, spoken: Spoken) -> Array:
        """The pitch of the voiced hops in Hz."""
        one = torch.ones(1)
        with torch.inference_mode():
            hz = self.voice.decoder.pitch(spoken.codes[None, :, 0], 0 * one, one)[0].numpy()
        return np.asarray(hz[hz > 0])

    def lengths(self, texts: Sequence[str], found: Sequence[Spoken], pace: float) -> dict[str, Any]:
        """How long utterances are beside the teacher's, and how many went wrong."""
        ratios = np.array(
            [
                spoken.units.sum() / self.reference.units(text, pace).sum()
                for text, spoken in zip(texts, found, strict=True)
            ]
        )
        low, middle, high = np.quantile(ratios, (0.01, 0.5, 0.99))
        return {
            "sentences": len(ratios),
            "runaways": sum(spoken.runaway for spoken in found),
            "empty": sum(len(spoken.codes) < LEAST_FRAMES for spoken in found),
            "within_15_percent": float(np.mean(np.abs(ratios - 1) <= LENGTH_TOLERANCE)),
            "ratio": {"p1": float(low), "median": float(middle), "p99": float(high)},
        }

    def word_starts(self, limit: int) -> dict[str, float]:
        """Median differences of word starts in seconds.

        paced: to the teacher's, both texts brought to one length; heard: to where Whisper hears
        the words of the sound itself.
        """
        texts = held_out("easy")[:limit]
        paced, heard = [], []
        for text, spoken in zip(texts, self.voice.spoken(texts), strict=True):
            tokens = self.voice.tokens(text)
            ours, theirs = starts_of(spoken.units), starts_of(self.reference.units(text))
            scale = ours[-1] / theirs[-1]
            paced += [abs(ours[w.start] - theirs[w.start] * scale) * UNIT_S for w in tokens.words]
            told = [(normal_text(w.text), ours[w.start] * UNIT_S) for w in tokens.words]
            audio = judged(self.voice.sound(spoken), SAMPLE_RATE)
            heard += _timing(told, self.judges.heard(audio, words=True).words)
        return {
            "paced_median_s": float(np.median(paced)),
            "heard_median_s": float(np.median(np.abs(heard))),
            "words": len(paced),
        }


def starts_of(units: Array) -> Array:
    """[tokens + 1] the unit in which each token begins, and the end."""
    return np.concatenate([[0], np.cumsum(units)])


def _timing(
    told: Sequence[tuple[str, float]], words: Sequence[tuple[str, float, float]]
) -> list[float]:
    """Differences in seconds over the words that were recognised, in order."""
    differences, at = [], 0
    for word, start in told:
        for index in range(at, min(at + SAY_AGAIN, len(words))):
            if normal_text(words[index][0]) == word:
                differences.append(words[index][1] - start)
                at = index + 1
                break
    return differences
