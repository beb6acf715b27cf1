"""Keyed sampling: a function of (logits, seed, frame, codebook) and of nothing else."""

from __future__ import annotations

import torch

from talker.engine.sampling import key, sample, uniforms


def test_the_draw_does_not_depend_on_the_batch() -> None:
    logits = torch.randn(16, 512, generator=torch.Generator().manual_seed(0))
    keys = [key(7, frame, 0) for frame in range(16)]
    together = sample(logits, keys, temperature=[0.8] * 16, top_k=[50] * 16)
    alone = [
        sample(logits[i : i + 1], keys[i : i + 1], temperature=[0.8], top_k=[50]) for i in range(16)
    ]
    assert together.tolist() == torch.cat(alone).tolist()


def test_seed_frame_and_codebook_each_change_the_draw() -> None:
    base = uniforms([key(1, 2, 3)], 64)
    for other in (key(9, 2, 3), key(1, 9, 3), key(1, 2, 9)):
        assert not torch.equal(base, uniforms([other], 64))


def test_uniforms_are_uniform_and_uncorrelated() -> None:
    draws = uniforms([key(0, frame, 0) for frame in range(400)], 512)
    assert float(draws.min()) > 0.0
    assert float(draws.max()) < 1.0
    assert abs(float(draws.mean()) - 0.5) < 0.005
    assert abs(float(draws.var()) - 1 / 12) < 0.002
    flat = draws - draws.mean()
    assert abs(float((flat[1:] * flat[:-1]).mean())) < 0.002
    assert abs(float((flat[:, 1:] * flat[:, :-1]).mean())) < 0.002


def test_the_frequencies_follow_the_softmax() -> None:
    logits = torch.tensor([2.0, 1.0, 0.0, -1.0]).repeat(20_000, 1)
    keys = [key(3, frame, 1) for frame in range(20_000)]
    ids = sample(logits, keys, temperature=[1.0] * 20_000, top_k=[0] * 20_000)
    found = torch.bincount(ids, minlength=4) / 20_000
    assert torch.allclose(found, logits[0].softmax(-1), atol=0.015)


def test_temperature_zero_is_greedy_and_top_k_cuts_the_tail() -> None:
    logits = torch.randn(8, 100, generator=torch.Generator().manual_seed(1))
    keys = [key(0, i, 0) for i in range(8)]
    greedy = sample(logits, keys, temperature=[0.0] * 8, top_k=[0] * 8)
    assert greedy.tolist() == logits.argmax(-1).tolist()
    for frame in range(50):
        draw_keys = [key(0, frame, i) for i in range(8)]
        ids = sample(logits, draw_keys, temperature=[5.0] * 8, top_k=[3] * 8)
        for drawn, row in zip(ids.tolist(), logits, strict=True):
            assert drawn in row.topk(3).indices.tolist()
