"""Keyed sampling: a function of (logits, seed, frame, codebook) and of nothing else."""

from __future__ import annotations

import torch

from talker.sampling.draw import (
    choose,
    draw_keys,
    frame_keys,
    gumbel,
    gumbels,
    sample,
    uniforms,
)

_MASK = (1 << 64) - 1


def key(seed: int, frames: int | range, draw: int) -> torch.Tensor:
    frame = torch.tensor([frames] if isinstance(frames, int) else list(frames))
    return draw_keys(frame_keys(torch.full_like(frame, seed), frame), draw)


def draw(logits: torch.Tensor, key: torch.Tensor, temperature: float, top_k: int) -> torch.Tensor:
    rows = len(logits)
    return sample(
        logits,
        key,
        temperature=torch.full((rows,), temperature),
        top_k=torch.full((rows,), top_k),
    )


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


def test_the_draw_does_not_depend_on_the_batch() -> None:
    logits = torch.randn(16, 512, generator=torch.Generator().manual_seed(0))
    together = draw(logits, key(7, range(16), 0), 0.8, 50)
    alone = [draw(logits[i : i + 1], key(7, i, 0), 0.8, 50) for i in range(16)]
    assert together.tolist() == torch.cat(alone).tolist()


def test_seed_frame_and_codebook_each_change_the_draw() -> None:
    base = uniforms(key(1, 2, 3), 64)
    for other in (key(9, 2, 3), key(1, 9, 3), key(1, 2, 9)):
        assert not torch.equal(base, uniforms(other, 64))


def test_uniforms_are_uniform_and_uncorrelated() -> None:
    draws = uniforms(key(0, range(400), 0), 512)
    assert float(draws.min()) > 0.0
    assert float(draws.max()) < 1.0
    assert abs(float(draws.mean()) - 0.5) < 0.005
    assert abs(float(draws.var()) - 1 / 12) < 0.002
    flat = draws - draws.mean()
    assert abs(float((flat[1:] * flat[:-1]).mean())) < 0.002
    assert abs(float((flat[:, 1:] * flat[:, :-1]).mean())) < 0.002


def test_the_frequencies_follow_the_softmax() -> None:
    logits = torch.tensor([2.0, 1.0, 0.0, -1.0]).repeat(20_000, 1)
    ids = draw(logits, key(3, range(20_000), 1), 1.0, 0)
    found = torch.bincount(ids, minlength=4) / 20_000
    assert torch.allclose(found, logits[0].softmax(-1), atol=0.015)


def test_temperature_zero_is_greedy_and_top_k_cuts_the_tail() -> None:
    logits = torch.randn(8, 100, generator=torch.Generator().manual_seed(1))
    assert draw(logits, key(0, range(8), 0), 0.0, 0).tolist() == logits.argmax(-1).tolist()
    for frame in range(50):
        ids = draw(logits, key(0, range(frame, frame + 8), 0), 5.0, 3)
        for drawn, row in zip(ids.tolist(), logits, strict=True):
            assert drawn in row.topk(3).indices.tolist()


def test_rows_of_one_batch_keep_their_own_settings() -> None:
    logits = torch.randn(3, 100, generator=torch.Generator().manual_seed(1))
    key_ = key(0, range(3), 0)
    together = sample(
        logits,
        key_,
        temperature=torch.tensor([0.0, 1.0, 2.0]),
        top_k=torch.tensor([0, 1, 30]),
    )
    assert together[:2].tolist() == logits[:2].argmax(-1).tolist()
    assert int(together[2]) == int(draw(logits[2:], key_[2:], 2.0, 30)[0])


def test_noise_of_several_draws_is_that_of_each() -> None:
    keys = frame_keys(torch.arange(6).view(2, 3), torch.arange(6).view(2, 3) * 5)
    found = gumbels(keys, (-1, 0, 16), (4, 48, 4))
    for noise, draw, count in zip(found, (-1, 0, 16), (4, 48, 4), strict=True):
        torch.testing.assert_close(noise, gumbel(draw_keys(keys, draw), count), rtol=0, atol=0)


def test_an_id_beyond_the_largest_is_drawn_again_among_them() -> None:
    logits = torch.linspace(0.0, 3.0, 64).expand(200, 64)
    noise = gumbel(torch.arange(200), 64)
    told = {"temperature": torch.full((200,), 3.0), "top_k": torch.full((200,), 5)}
    assert choose(logits, noise, temperature=told["temperature"]).min() < 59
    assert choose(logits, noise, **told).min() >= 59
