"""Speaking offline: pointers, endings, lookups."""

import torch

from ttsfamilies.vesper.net import VesperNet
from ttsfamilies.vesper.stream import VesperSampling
from voicetrain.vesper.speak import speak

TEXTS = [[0, 5, 9, 17, 4, 0], [0, 44, 0], [0, *range(50, 62), 0]]


def test_utterances_are_whole_the_same_each_time_and_other_for_another_seed(
    net: VesperNet,
) -> None:
    one, same = (speak(net, TEXTS, VesperSampling(), seed=3) for _ in range(2))
    other = speak(net, TEXTS, VesperSampling(), seed=4)
    assert all(torch.equal(a.codes, b.codes) for a, b in zip(one, same, strict=True))
    assert not all(
        a.codes.shape == b.codes.shape and torch.equal(a.codes, b.codes)
        for a, b in zip(one, other, strict=True)
    )
    for text, spoken in zip(TEXTS, one, strict=True):
        assert len(spoken.units) == len(text)
        assert spoken.units.min() >= 1
        assert spoken.units.sum() == 2 * len(spoken.codes)
        assert not spoken.runaway


def test_a_token_is_left_when_it_has_lasted_too_long(net: VesperNet) -> None:
    net.move_head.bias.data = torch.tensor([9.0, 0.0, 0.0, 0.0])
    (spoken,) = speak(net, TEXTS[:1], VesperSampling(move_temperature=0, longest_units=6))
    assert spoken.units.max() <= 9
    assert not spoken.runaway


def test_a_talker_that_never_moves_is_a_runaway(net: VesperNet) -> None:
    net.move_head.bias.data = torch.tensor([99.0, 0.0, 0.0, 0.0])
    (spoken,) = speak(net, TEXTS[:1], VesperSampling(move_temperature=0, longest_units=10_000))
    assert spoken.runaway
