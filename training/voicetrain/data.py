"""The synthesised corpus as flat arrays: features a hop, phones an utterance, audio for a part."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from voicetrain.features import HOPS_PER_FRAME

Array = NDArray[Any]
PHONE_HOP = 1


def _offsets(lengths: Array) -> Array:
    return np.concatenate([[0], np.cumsum(lengths)])


@dataclass(frozen=True)
class Corpus:
    """Utterances laid end to end; `x_start[i]` ... `x_start[i + 1]` is utterance i in x.

    mel [hops, mels] float16, hop_phone [hops], f0 [hops] Hz, symbol and flag [phones],
    audio [samples] int16 (empty for most utterances), voice [utterances], text [utterances].
    """

    mel: Array
    hop_phone: Array
    f0: Array
    symbol: Array
    flag: Array
    audio: Array
    voice: Array
    text: Array
    hop_start: Array
    phone_start: Array
    sample_start: Array

    def __len__(self) -> int:
        return len(self.voice)

    @classmethod
    def load(cls, shards: Sequence[Path], names: Sequence[str] | None = None) -> "Corpus":
        """Read shards in order; arrays not in `names` (all by default) stay empty."""
        columns: dict[str, list[Array]] = {}
        for path in shards:
            with np.load(path) as shard:
                for name in shard.files:
                    if names is None or name in names or name in ("hops", "phones", "samples"):
                        columns.setdefault(name, []).append(shard[name])
        arrays = {name: np.concatenate(parts) for name, parts in columns.items()}
        starts = {
            "hop_start": _offsets(arrays.pop("hops")),
            "phone_start": _offsets(arrays.pop("phones")),
            "sample_start": _offsets(arrays.pop("samples")),
        }
        fields = ("mel", "hop_phone", "f0", "symbol", "flag", "audio", "voice", "text")
        empty = np.zeros(0)
        return cls(**{name: arrays.get(name, empty) for name in fields}, **starts)

    def hop_symbols(self) -> Array:
        """[hops] int64: the symbol sounding at each hop."""
        utterance = np.repeat(np.arange(len(self)), np.diff(self.hop_start))
        return self.symbol[self.phone_start[utterance] + self.hop_phone].astype(np.int64)

    def pointers(self, index: int) -> Array:
        """[frames] int64: the phone each frame speaks; frame 0 always speaks phone 0."""
        hops = self.hop_phone[self.hop_start[index] : self.hop_start[index + 1]]
        pointer = hops.reshape(-1, HOPS_PER_FRAME)[:, PHONE_HOP].astype(np.int64)
        pointer[0] = 0
        return pointer

    def phones(self, index: int) -> tuple[Array, Array]:
        """Symbol ids and flags of one utterance, each [phones] int64."""
        part = slice(self.phone_start[index], self.phone_start[index + 1])
        return self.symbol[part].astype(np.int64), self.flag[part].astype(np.int64)
