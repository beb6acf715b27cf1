"""Keyed noise: a function of (seed, frame, draw, column) and of nothing else."""

import pytest
import torch

from ttscommon.engine.kernels.choice import Version, only
from ttsfamilies.base.sampling import Settings, draw_ids
from ttsfamilies.base.sampling.noise import (
    Noise,
    draw_keys,
    frame_keys,
    gumbel,
    gumbels,
    normals,
    uniforms,
)

_MASK = (1 << 64) - 1


def key(seed: int, frames: int | range, draw: int) -> torch.Tensor:
    frame = torch.tensor([frames] if isinstance(frames, int) else list(frames))
    return draw_keys(frame_keys(torch.full_like(frame, seed), frame), draw)


def mixed(value: int) -> int:
    """splitmix64 on Python integers, written down once more."""
    value = (value + 0x9E3779B97F4A7C15) & _MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)


def test_keys_are_splitmix64_of_seed_frame_and_draw() -> None:
    for seed, frame, codebook in ((0, 0, 0), (7, 123, -1), (2**53 - 1, 4000, 3)):
        expected = mixed(mixed(mixed(seed) ^ frame) ^ (codebook & _MASK))
        assert int(key(seed, frame, codebook)[0]) & _MASK == expected


def test_uniforms_are_uniform_and_uncorrelated() -> None:
    draws = uniforms(key(0, range(400), 0), 512)
    assert float(draws.min()) > 0.0
    assert float(draws.max()) < 1.0
    assert abs(float(draws.mean()) - 0.5) < 0.005
    assert abs(float(draws.var()) - 1 / 12) < 0.002
    flat = draws - draws.mean()
    assert abs(float((flat[1:] * flat[:-1]).mean())) < 0.002
    assert abs(float((flat[:, 1:] * flat[:, :-1]).mean())) < 0.002


def unmixed(value: int) -> int:
    """What `mixed` gives this for."""
    for shift, factor in ((31, 0x94D049BB133111EB), (27, 0xBF58476D1CE4E5B9), (30, 1)):
        found = value
        for _ in range(64 // shift):
            found = value ^ (found >> shift)
        value = found * pow(factor, -1, _MASK + 1) & _MASK
    return (value - 0x9E3779B97F4A7C15) & _MASK


# The uniform of this key and column would round to 1.
KEY, COLUMN = 1930, 995


def extreme() -> Noise:
    """Its first draw has that key."""
    seed = unmixed(unmixed(unmixed(KEY)))
    return Noise(torch.tensor([seed - (seed >> 63 << 64)]), torch.tensor([0]))


def test_no_uniform_is_1_and_no_noise_is_infinite() -> None:
    found = uniforms(torch.tensor([KEY]), COLUMN + 1)[0, COLUMN]
    assert found == 1.0 - 2.0**-24
    assert extreme().gumbel(0, COLUMN + 1).isfinite().all()


@pytest.mark.parametrize("which", ["plain", "triton"])
def test_an_id_that_is_out_is_not_drawn_by_the_greatest_noise(
    which: Version,
) -> None:
    if which == "triton":
        pytest.importorskip("triton")
    logits = torch.zeros(1, COLUMN + 1)
    logits[0, 7] = 1.0
    told = Settings(torch.tensor([1.0]), torch.tensor([1]), None)
    with only(which):
        ids, finite = draw_ids(logits, extreme(), 0, told, None)
    assert ids.tolist() == [7]
    assert finite.tolist() == [True]


def test_noise_of_several_draws_is_that_of_each() -> None:
    keys = frame_keys(torch.arange(6).view(2, 3), torch.arange(6).view(2, 3) * 5)
    found = gumbels(keys, (-1, 0, 16), (4, 48, 4))
    for noise, draw, count in zip(found, (-1, 0, 16), (4, 48, 4), strict=True):
        torch.testing.assert_close(noise, gumbel(draw_keys(keys, draw), count), rtol=0, atol=0)


def test_even_noise_of_a_draw_is_that_of_its_keys() -> None:
    found = Noise(torch.tensor([5, 6]), torch.tensor([7, 7])).uniform(1, 3)
    assert torch.equal(found, torch.cat([uniforms(key(seed, 7, 1), 3) for seed in (5, 6)]))


def test_noise_of_some_columns_and_of_some_rows_is_that_of_all() -> None:
    whole = Noise(torch.arange(5), torch.arange(5) * 3)
    ids, index = torch.tensor([[4, 60, 0]] * 5), torch.tensor([3, 1])
    expected = whole.gumbel(7, 64)
    assert torch.equal(whole.gumbel(7, ids), expected.gather(1, ids))
    assert torch.equal(whole.rows(index).gumbel(7, 64), expected[index])


def test_normals_are_normal_and_a_longer_row_begins_as_a_shorter_one() -> None:
    keys = key(0, range(400), 0)
    drawn = normals(keys, 512)
    assert abs(float(drawn.mean())) < 0.01
    assert abs(float(drawn.var()) - 1) < 0.02
    assert abs(float((drawn**4).mean()) - 3) < 0.1
    assert torch.equal(normals(keys, 100), drawn[:, :100])
