"""The teacher cut open gives what it gives whole, and its ported parts compute the same."""

import numpy as np
import pytest
import torch

from ttsfamilies.vesper.codec.net import HOPS_PER_FRAME, VesperCodecConfig, VesperDecoder
from ttsfamilies.vesper.net import VesperNet
from voicetrain.vesper.ported import cut, port_decoder, port_text_encoders
from voicetrain.vesper.teacher import Teacher

pytest.importorskip("hibari", reason="the teacher belongs to the training environment")

SENTENCE = "The quick brown fox jumps over the lazy dog."


@pytest.fixture(scope="module")
def teacher() -> Teacher:
    return Teacher()


@pytest.fixture(scope="module")
def ids(teacher: Teacher) -> list[int]:
    return teacher.ids(teacher.phonemes(SENTENCE)[0])


def test_the_parts_give_the_pitch_of_the_whole(teacher: Teacher, ids: list[int]) -> None:
    plan = teacher.plan(ids)
    units = np.maximum(1, np.round(plan.units)).astype(int)
    f0, energy = teacher.prosody(plan, units)
    assert len(f0) == len(energy) == 2 * units.sum()
    feed = {"ids": np.array([ids]), "speed": np.array([1.0], np.float32)}
    whole = teacher._own.sess.run(["f0"], feed)[0][0]
    assert np.abs(whole - f0).mean() < 0.2  # activations are rounded to int8


def test_the_ported_text_encoders_say_what_the_graph_says(teacher: Teacher, ids: list[int]) -> None:
    net, plan = VesperNet(), teacher.plan(ids)
    port_text_encoders(net)
    net.eval()
    tokens = torch.tensor([ids])
    with torch.inference_mode():
        pairs = ((net.text(tokens), plan.text), (net.prosody(tokens), plan.prosody))
    for ours, theirs in pairs:
        error = (ours[0].numpy() - theirs).std() / theirs.std()
        assert error < 0.03  # the graph's activations are int8


def test_the_ported_decoder_says_what_the_graph_says(teacher: Teacher, ids: list[int]) -> None:
    class Whole(VesperCodecConfig):
        def __post_init__(self) -> None:
            """Any look ahead."""

    decoder = VesperDecoder(Whole(ahead=(3,) * 9))
    port_decoder(decoder)
    plan = teacher.plan(ids)
    units = np.maximum(1, np.round(plan.units)).astype(int)
    inputs = teacher.inputs(plan, units, *teacher.prosody(plan, units))
    theirs, late = teacher.hidden(inputs), decoder.config.late_hops
    padded = torch.nn.functional.pad(torch.from_numpy(inputs), (0, 0, 0, late))
    with torch.inference_mode():
        ours = decoder.eval().hidden(padded[None])[0, late:].numpy()
    inner = slice(6 * HOPS_PER_FRAME, -late)
    assert np.square(ours[inner] - theirs[inner]).mean() / theirs.var() < 0.01


def test_a_cut_layer_keeps_the_taps_that_it_can_still_see() -> None:
    taps = torch.arange(1.0, 8.0)[None, None]
    assert cut(taps, 3).tolist() == taps.tolist()
    assert cut(taps, 1).tolist() == [[[0, 0, 1, 2, 3, 4, 5]]]
    assert cut(taps, 0).tolist() == [[[0, 0, 0, 1, 2, 3, 4]]]
