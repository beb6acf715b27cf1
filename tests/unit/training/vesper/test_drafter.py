"""The drafter's stage: what it is told, and that it learns what the talker draws and no more."""

from pathlib import Path

import numpy as np
import torch

from tests.unit.training.vesper.test_talk import corpus_of
from ttsfamilies.vesper.net import VesperNet
from ttsfamilies.vesper.stream import VesperSampling
from voicetrain.vesper.drafter import drafter_losses, total, tune_drafter
from voicetrain.vesper.talk import DRAFTS, Batch, Utterances, drafts_of, hidden_states


def test_guesses_are_of_the_frames_behind_and_stay_in_the_utterance(net: VesperNet) -> None:
    batch = Utterances(corpus_of(2), net.config.bos).batch([0, 1])
    last = int((batch.utterance == 0).sum()) - 1
    chosen = torch.tensor([0, last - 1, last])
    with torch.inference_mode():
        told = hidden_states(net, batch)
        found = [at.tolist() for at, _ in drafts_of(net, batch, *told, chosen)]
    assert found == [[1, last], *([ahead] for ahead in range(2, DRAFTS + 1))]


def how_far_apart(net: VesperNet, batch: Batch) -> float:
    with torch.inference_mode():
        return float(total(drafter_losses(net, batch, VesperSampling())))


def test_the_drafter_comes_closer_to_a_talker_that_stays_as_it_is(
    net: VesperNet, tmp_path: Path
) -> None:
    spoken = corpus_of(24)
    batch = Utterances(spoken, net.config.bos).batch([22, 23])
    before = {name: value.clone() for name, value in net.state_dict().items()}
    apart = how_far_apart(net, batch)
    tuned = tune_drafter(
        net, spoken, np.array([22, 23]), VesperSampling(), tmp_path / "d.pt", 1.0, 1
    )
    assert how_far_apart(tuned, batch) < apart
    for name, value in tuned.state_dict().items():
        assert name.startswith("drafter.") or torch.equal(value, before[name]), name
