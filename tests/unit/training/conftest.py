"""A corpus without a teacher."""

from collections.abc import Callable

import numpy as np
import pytest

from talker.text.symbols import SYMBOLS
from voicetrain.data import Corpus

CorpusOf = Callable[[list[int], list[int]], Corpus]


@pytest.fixture
def corpus_of() -> CorpusOf:
    """Makes utterances of so many frames and phones; phones take equal parts of their frames."""
    return _corpus_of


def _corpus_of(frames: list[int], phones: list[int], seed: int = 0) -> Corpus:
    generator = np.random.default_rng(seed)
    hops = np.array(frames) * 4
    hop_phone = [np.arange(h) * p // h for h, p in zip(hops, phones, strict=True)]
    total = sum(phones)
    nothing = np.zeros(0)
    return Corpus(
        mel=nothing,
        hop_phone=np.concatenate(hop_phone).astype(np.int16),
        f0=nothing,
        symbol=generator.integers(1, len(SYMBOLS), total).astype(np.int16),
        flag=generator.integers(0, 3, total).astype(np.int16),
        audio=nothing,
        voice=np.arange(len(frames)) % 3,
        text=nothing,
        hop_start=np.concatenate([[0], np.cumsum(hops)]),
        phone_start=np.concatenate([[0], np.cumsum(phones)]),
        sample_start=np.zeros(len(frames) + 1),
    )
