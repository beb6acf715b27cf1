"""Batches for the talker, and that training and speaking compute the same."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch

from talker.models.cantor_net import CONTEXT, CantorConfig, CantorNet
from talker.text.symbols import FLAG_PAUSE, SYMBOLS, Phone
from vocoder.codecs.cantor_net import CantorCodecConfig, CantorDecoder
from voicetrain.data import Corpus
from voicetrain.speak import Singer
from voicetrain.talker_stage import (
    Utterances,
    context_of,
    held_frames,
    hidden_states,
    talker_losses,
)

CorpusOf = Callable[[list[int], list[int]], Corpus]

SMALL = CantorConfig(
    codebook_size=32, dim=32, layers=2, heads=2, hidden=48, depth_dim=16, depth_hidden=24
)


def utterances_of(corpus: Corpus) -> Utterances:
    count = int(corpus.hop_start[-1]) // 4
    codes = np.random.default_rng(1).integers(0, SMALL.codebook_size, (count, 4))
    return Utterances(corpus, codes, SMALL)


def test_held_counts_the_frames_on_a_phone() -> None:
    assert held_frames(np.array([0, 0, 1, 1, 1, 3])).tolist() == [0, 1, 0, 1, 2, 0]


def test_context_is_the_phone_before_at_and_two_after_the_pointer() -> None:
    around = context_of(np.array([5, 6, 7]), np.array([0, 2]), outside=9)
    assert around.tolist() == [[9, 5, 6, 7], [6, 7, 9, 9]]
    assert around.shape[1] == CONTEXT


def test_advances_lead_from_the_first_phone_past_the_last(corpus_of: CorpusOf) -> None:
    utterances = utterances_of(corpus_of([12, 9], [5, 4]))
    batch = utterances.batch([0, 1])
    for row, phones in enumerate((5, 4)):
        assert int(batch.advance[batch.utterance == row].sum()) == phones


def test_a_frame_is_told_the_code_before_it_and_the_first_is_told_none(corpus_of: CorpusOf) -> None:
    batch = utterances_of(corpus_of([6], [3])).batch([0])
    assert batch.previous.tolist() == [SMALL.bos, *batch.codes[:-1, 0].tolist()]


def test_padding_changes_no_hidden_state(corpus_of: CorpusOf) -> None:
    torch.manual_seed(0)
    net = CantorNet(SMALL).eval()
    utterances = utterances_of(corpus_of([12, 30], [5, 11]))
    alone = hidden_states(net, utterances.batch([0]))
    together = utterances.batch([0, 1])
    shared = hidden_states(net, together)[together.utterance == 0]
    torch.testing.assert_close(alone, shared, atol=1e-5, rtol=1e-5)


def test_drafts_never_reach_into_the_next_utterance(corpus_of: CorpusOf) -> None:
    torch.manual_seed(0)
    net = CantorNet(SMALL).eval()
    utterances = utterances_of(corpus_of([4, 4], [2, 2]))
    _, parts = talker_losses(net, utterances.batch([0]))
    assert all(torch.isfinite(parts[f"draft{ahead}"]) for ahead in (1, 2, 3))


def test_batches_cover_an_epoch_once(corpus_of: CorpusOf) -> None:
    utterances = utterances_of(corpus_of([4] * 50, [2] * 50))
    batch_of = utterances.order(np.arange(50), seed=0)
    for epoch in range(2):
        seen = [index for step in range(5) for index in batch_of(5 * epoch + step)]
        assert sorted(seen) == list(range(50))
    assert [batch_of(step) for step in range(5)] != [batch_of(step) for step in range(5, 10)]


def test_a_resumed_training_sees_the_batches_it_would_have_seen(corpus_of: CorpusOf) -> None:
    utterances = utterances_of(corpus_of([4] * 50, [2] * 50))
    first, second = (utterances.order(np.arange(50), seed=0) for _ in range(2))
    whole = [first(step) for step in range(12)]
    assert second(11) == whole[11]
    assert second(7) == whole[7]


def test_speaking_step_by_step_sees_the_hidden_states_of_training(corpus_of: CorpusOf) -> None:
    torch.manual_seed(0)
    net = CantorNet(SMALL).eval()
    sampling = {
        "temperature": 0.7,
        "top_k": 8,
        "advance_temperature": 0.7,
        "residual_temperature": 0.7,
        "max_frames_per_phone": 4,
    }
    singer = Singer(net, CantorDecoder(CantorCodecConfig(codebook_size=32)), sampling)
    symbols = [1, 9, 20, 1]
    flags = [FLAG_PAUSE, 1, 0, FLAG_PAUSE]
    words = [-1, 0, 0, -1]
    phones = [Phone(SYMBOLS[s], w, f == 1) for s, w, f in zip(symbols, words, flags, strict=True)]
    sung = singer.sing(phones, speaker=1, seed=3)
    assert not sung.runaway
    assert sung.codes.shape == (len(sung.pointer) - 1, SMALL.codebooks)
    pointer = sung.pointer[:-1]
    corpus = replace(
        corpus_of([len(pointer)], [4]),
        hop_phone=np.repeat(pointer, 4).astype(np.int16),
        symbol=np.array(symbols, np.int16),
        flag=np.array(flags, np.int16),
        voice=np.array([1]),
    )
    batch = Utterances(corpus, sung.codes.numpy(), SMALL).batch([0])
    with torch.no_grad():
        logits = net.code0_logits(hidden_states(net, batch), batch.advance)[:-1]
    chosen = logits.gather(1, sung.codes[:-1, :1])[:, 0]
    least = logits.topk(8).values[:, -1]
    assert bool((chosen >= least - 1e-4).all())


def test_the_net_refuses_no_leading_shape() -> None:
    net = CantorNet(SMALL).eval()
    symbols = torch.ones(3, CONTEXT, dtype=torch.int64)
    flat = net.embed_frame(
        torch.tensor([1, 2, SMALL.bos]),
        symbols,
        symbols,
        torch.tensor([0, 40, 2]),
        torch.zeros(3, dtype=torch.int64),
    )
    assert flat.shape == (3, SMALL.dim)
    advance, code = net.draft_logits(flat, torch.zeros(3, dtype=torch.int64), torch.arange(3))
    assert advance.shape == (3, 4, 8)
    assert code.shape == (3, 4, 32)
    with pytest.raises(RuntimeError):
        net.advance_logits(torch.zeros(3, SMALL.dim + 1))
