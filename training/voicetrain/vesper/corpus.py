"""Stage: the teacher reads the text, varied; what the talker and the decoder learn from.

Most sentences are read from the phones that the server's own frontend gives, some from the
teacher's own reading, so that the talker does not depend on one lexicon.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import torch

from ttscommon.wire.errors import NothingToSay
from ttscommon.wire.fields import Array
from ttsfamilies.base.text.frontend import EnglishFrontend
from ttsfamilies.base.text.misaki import tokens_of
from ttsfamilies.vesper.codec.net import HOPS_PER_FRAME
from ttsfamilies.vesper.net import VesperNet
from voicetrain.progress import Progress
from voicetrain.vesper.codes import Features, features
from voicetrain.vesper.teacher import Teacher
from voicetrain.vesper.variation import draw_manner, durations, shifted, walked

OWN_SHARE: Final = 0.8
FEWEST_TOKENS, MOST_TOKENS = 4, 400
LONGEST_UNITS: Final = 255
SHARD: Final = 1000
DECODER_LEVEL, DECODER_SPAN = 0.18, 0.4
"""How far presets may go: log pitch, and log of the range; the decoder hears all of it."""
PLAIN_SHARE: Final = 0.4
_FLAT: Final = ("ids", "units", "f0", "energy", "pace", "tokens", "hops", "level", "span")


@dataclass(frozen=True)
class Reading:
    """One utterance as the teacher reads it, varied.

    ids, units [tokens]; f0 in Hz and energy [hops]; text [units, 128]; hidden [hops, 256] float16
    of the pitch shifted by level and span, or None.
    """

    ids: Array
    units: Array
    f0: Array
    energy: Array
    pace: float
    level: float
    span: float
    hidden: Array | None


class Reader:
    """Teacher and frontend. Every sentence is varied by a generator of its own."""

    def __init__(self, lexicon: Path, seed: int) -> None:
        self.teacher, self.seed = Teacher(), seed
        self.frontend = EnglishFrontend.load(lexicon)

    def read(self, number: int, text: str, *, hidden: bool) -> Reading | None:
        """The reading of a numbered text, or None where its tokens are too few or too many."""
        generator = np.random.default_rng((self.seed, number))
        ids = self._tokens(text, own=generator.random() < OWN_SHARE)
        if not FEWEST_TOKENS <= len(ids) <= MOST_TOKENS:
            return None
        plan, manner = self.teacher.plan(ids), draw_manner(generator)
        units = durations(plan.units, manner.pace, generator)
        if units.max() > LONGEST_UNITS:
            return None
        f0, energy = self.teacher.prosody(plan, units)
        f0 = walked(shifted(f0, manner.level, manner.span), generator)
        level, span = self._preset(generator)
        state = None
        if hidden:
            inputs = self.teacher.inputs(plan, units, shifted(f0, level, span), energy)
            state = self.teacher.hidden(inputs).astype(np.float16)
        return Reading(np.array(ids), units, f0, energy, manner.pace, level, span, state)

    def _tokens(self, text: str, *, own: bool) -> Sequence[int]:
        if own:
            try:
                return tokens_of(self.frontend.phones(text)).ids
            except NothingToSay:
                return ()
        phonemes = self.teacher.phonemes(text)
        return self.teacher.ids(phonemes[0]) if len(phonemes) == 1 else ()

    def _preset(self, generator: np.random.Generator) -> tuple[float, float]:
        """Change of log pitch and factor on its range, as a preset might have it."""
        level = float(generator.uniform(-DECODER_LEVEL, DECODER_LEVEL))
        span = float(np.exp(generator.uniform(-DECODER_SPAN, DECODER_SPAN)))
        return (0.0, 1.0) if generator.random() < PLAIN_SHARE else (level, span)


def read_corpus(
    texts: Sequence[str], lexicon: Path, folder: Path, seed: int, hidden_count: int
) -> None:
    """Read all texts into numbered shards; those that are there already are kept.

    The first `hidden_count` texts are read with the decoder's hidden state.
    """
    folder.mkdir(parents=True, exist_ok=True)
    reader, progress = Reader(lexicon, seed), Progress("corpus", len(texts))
    for first in range(0, len(texts), SHARD):
        path = folder / f"{first // SHARD:04d}.npz"
        if path.exists():
            continue
        numbered = range(first, min(first + SHARD, len(texts)))
        found = (reader.read(n, texts[n], hidden=n < hidden_count) for n in numbered)
        _write(path, [reading for reading in found if reading is not None])
        progress.report(numbered.stop)


def _write(path: Path, readings: Sequence[Reading]) -> None:
    hidden = [r.hidden for r in readings if r.hidden is not None]
    temporary = path.with_suffix(".part.npz")
    np.savez(
        temporary,
        ids=np.concatenate([r.ids for r in readings]).astype(np.uint8),
        units=np.concatenate([r.units for r in readings]).astype(np.uint8),
        f0=np.concatenate([r.f0 for r in readings]).astype(np.float32),
        energy=np.concatenate([r.energy for r in readings]).astype(np.float32),
        tokens=np.array([len(r.ids) for r in readings]),
        hops=np.array([len(r.f0) for r in readings]),
        pace=np.array([r.pace for r in readings], np.float32),
        level=np.array([r.level for r in readings], np.float32),
        span=np.array([r.span for r in readings], np.float32),
        hidden=np.concatenate(hidden) if hidden else np.zeros((0, 0), np.float16),
    )
    temporary.rename(path)


@dataclass(frozen=True)
class VesperCorpus:
    """All readings laid end to end; see `Reading`.

    token_start, hop_start [utterances + 1]. hidden [hops of the first utterances, 256].
    """

    ids: Array
    units: Array
    f0: Array
    energy: Array
    pace: Array
    level: Array
    span: Array
    hidden: Array
    token_start: Array
    hop_start: Array

    def __len__(self) -> int:
        return len(self.pace)

    @classmethod
    def load(cls, folder: Path, *, hidden: bool = False) -> "VesperCorpus":
        """Read the shards of `read_corpus`; the hidden states only when asked for."""
        names = (*_FLAT, "hidden") if hidden else _FLAT
        columns: dict[str, list[Array]] = {name: [] for name in names}
        for path in sorted(folder.glob("????.npz")):
            with np.load(path) as shard:
                for name in names:
                    if name != "hidden" or shard[name].size:
                        columns[name].append(shard[name])
        joined = {name: np.concatenate(parts) for name, parts in columns.items()}
        starts = {
            "token_start": np.concatenate([[0], np.cumsum(joined.pop("tokens"))]),
            "hop_start": np.concatenate([[0], np.cumsum(joined.pop("hops"))]),
        }
        return cls(**{"hidden": np.zeros((0, 0), np.float16), **joined}, **starts)

    @property
    def frame_start(self) -> Array:
        """[utterances + 1]."""
        return self.hop_start // HOPS_PER_FRAME

    @property
    def hidden_count(self) -> int:
        """How many utterances, the first ones, have a hidden state."""
        return int(np.searchsorted(self.hop_start, len(self.hidden), side="right")) - 1

    def features(self, net: VesperNet, indices: Sequence[int]) -> Iterator[Features]:
        """What is quantised of each utterance; the net has the teacher's text encoder."""
        for index in indices:
            tokens = slice(self.token_start[index], self.token_start[index + 1])
            hops = slice(self.hop_start[index], self.hop_start[index + 1])
            with torch.inference_mode():
                text = net.text(torch.from_numpy(self.ids[tokens].astype(np.int64))[None])[0]
            units = torch.from_numpy(self.units[tokens].astype(np.int64))
            yield features(
                torch.from_numpy(self.f0[hops]),
                torch.from_numpy(self.energy[hops]),
                text.repeat_interleave(units, 0),
            )
