"""Batches for the talker, its training and its drafter's, and that speaking computes the same."""

from pathlib import Path

import numpy as np
import pytest
import torch

from ttsfamilies.vesper.net import VesperNet, moved
from ttsfamilies.vesper.stream import VesperSampling
from voicetrain.vesper.drafter import drafter_losses, total, tune_drafter
from voicetrain.vesper.speak import speak
from voicetrain.vesper.talk import (
    DRAFTS,
    TalkCorpus,
    Utterances,
    drafts_of,
    hidden_states,
    path_of,
    talker_losses,
    train_talker,
)

STEPS = 320


def corpus_of(utterances: int, seed: int = 0) -> TalkCorpus:
    """Tokens that last as many units as their number says, and whose number is their pitch."""
    generator = np.random.default_rng(seed)
    tokens = [np.array([0, *generator.integers(1, 6, 9), 0]) for _ in range(utterances)]
    units = [np.where(ids == 0, 2, ids) for ids in tokens]
    for part in units:
        part[-1] += part.sum() % 2
    frames = [int(part.sum()) // 2 for part in units]
    pitch = [ids[path_of(part)[0]] for ids, part in zip(tokens, units, strict=True)]
    return TalkCorpus(
        np.concatenate(tokens).astype(np.uint8),
        np.concatenate(units).astype(np.uint8),
        np.repeat(np.concatenate(pitch)[:, None], 2, 1).astype(np.int16),
        np.concatenate([[0], np.cumsum([len(ids) for ids in tokens])]),
        np.concatenate([[0], np.cumsum(frames)]),
        np.ones(utterances, np.float32),
    )


def test_the_path_is_where_moves_lead() -> None:
    units = np.array([2, 1, 1, 3, 1, 2])
    pointer, held, move = path_of(units)
    at = torch.tensor(0), torch.tensor(0)
    for step in range(len(pointer)):
        assert [int(value) for value in at] == [pointer[step], held[step]]
        at = moved(*at, torch.tensor(move[step]))
    assert int(at[0]) == len(units)


def test_padding_and_neighbours_change_no_hidden_state(net: VesperNet) -> None:
    utterances = Utterances(corpus_of(3), net.config.bos)
    with torch.inference_mode():
        together, *_ = hidden_states(net, utterances.batch([0, 1, 2]))
        alone, *_ = hidden_states(net, utterances.batch([1]))
    first = utterances.corpus.frame_start[1]
    assert torch.allclose(together[first : first + len(alone)], alone, atol=1e-5)


def test_every_utterance_comes_once_an_epoch_in_an_order_of_its_seed(net: VesperNet) -> None:
    utterances = Utterances(corpus_of(40), net.config.bos)
    order = utterances.order(np.arange(40), 1)
    epoch = [i for step in range(3) for i in order(step)]
    assert sorted(epoch) == list(range(40))
    assert [utterances.order(np.arange(40), 1)(step) for step in range(3)] == [
        order(step) for step in range(3)
    ]
    assert utterances.order(np.arange(40), 2)(0) != order(0)


def test_losses_reach_every_trained_part(net: VesperNet) -> None:
    net.train()
    loss, parts = talker_losses(net, Utterances(corpus_of(4), net.config.bos).batch([0, 1, 2, 3]))
    loss.backward()
    assert {"move", "code0", "energy", "draft1", "draft4"} <= parts.keys()
    for name, parameter in net.named_parameters():
        frozen = name.startswith(("text.", "prosody.", "text_table"))
        reached = parameter.grad is not None and bool(parameter.grad.abs().sum() > 0)
        assert reached or frozen, name


@pytest.mark.slow
@pytest.mark.usefixtures("clock")
def test_a_trained_talker_says_tokens_at_their_lengths(net: VesperNet, tmp_path: Path) -> None:
    corpus = corpus_of(200)
    before = net.prosody.embedding.weight.clone()
    train_talker(net, corpus, np.arange(190, 200), tmp_path / "talker.pt", STEPS, seed=1)
    assert torch.equal(net.prosody.embedding.weight, before)
    texts = [corpus.ids[slice(*corpus.token_start[i : i + 2])].tolist() for i in range(190, 200)]
    greedy = VesperSampling(move_temperature=0, temperature=0, energy_temperature=0)
    right = []
    for text, spoken in zip(texts, speak(net, texts, greedy), strict=True):
        assert not spoken.runaway
        right += [abs(int(u) - t) <= 1 for u, t in zip(spoken.units[1:-1], text[1:-1], strict=True)]
    assert np.mean(right) > 0.7


def test_guesses_are_of_the_frames_behind_and_stay_in_the_utterance(net: VesperNet) -> None:
    batch = Utterances(corpus_of(2), net.config.bos).batch([0, 1])
    last = int((batch.utterance == 0).sum()) - 1
    chosen = torch.tensor([0, last - 1, last])
    with torch.inference_mode():
        told = hidden_states(net, batch)
        found = [at.tolist() for at, _ in drafts_of(net, batch, *told, chosen)]
    assert found == [[1, last], *([ahead] for ahead in range(2, DRAFTS + 1))]


@pytest.mark.usefixtures("clock")
def test_the_drafter_comes_closer_to_a_talker_that_stays_as_it_is(
    net: VesperNet, tmp_path: Path
) -> None:
    spoken, held = corpus_of(24), np.array([22, 23])
    batch = Utterances(spoken, net.config.bos).batch([22, 23])
    before = {name: value.clone() for name, value in net.state_dict().items()}

    def apart() -> float:
        with torch.inference_mode():
            return float(total(drafter_losses(net, batch, VesperSampling())))

    untuned = apart()
    tuned = tune_drafter(net, spoken, held, VesperSampling(), tmp_path / "d.pt", 20.0, 1)
    assert apart() < untuned
    for name, value in tuned.state_dict().items():
        assert name.startswith("drafter.") or torch.equal(value, before[name]), name
