"""Sampling on a device: the kernel and its twin choose the same ids."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from talker.kernels.rules import Rules
from talker.kernels.sampling import MOST_IDS, Noise, draw_ids
from talker.sampling.draw import draw_keys, frame_keys, uniforms
from talker.sampling.draw import sample as sample_on_cpu
from ttscommon.engine.kernels.choice import only

triton = pytest.importorskip("triton")
tl = pytest.importorskip("triton.language")
uniforms_of = pytest.importorskip("talker.kernels.sampling_triton")._uniforms

ROWS = 5


def noise(generator: torch.Generator, rows: int = ROWS) -> Noise:
    seeds = torch.randint(0, 2**62, (rows,), generator=generator)
    return Noise(seeds, torch.randint(0, 5000, (rows,), generator=generator))


def rules(generator: torch.Generator, vocabulary: int, rows: int = ROWS) -> Rules:
    return Rules(
        seen=torch.rand(rows, vocabulary, generator=generator) < 0.3,
        penalty=1 + torch.rand(rows, generator=generator),
        made=torch.arange(rows),
        suppressed=torch.arange(vocabulary) >= vocabulary - vocabulary // 3,
        end=vocabulary // 2,
        least_frames=2,
    )


@pytest.mark.parametrize("vocabulary", [5, 300, 3072])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("which", ["plain", "top_k", "top_p", "all"])
def test_the_kernel_draws_the_ids_of_its_twin(
    vocabulary: int, dtype: torch.dtype, which: str
) -> None:
    g = torch.Generator().manual_seed(vocabulary)
    logits = (3 * torch.randn(ROWS, vocabulary, generator=g)).to(dtype)
    told: dict[str, Any] = {
        "temperature": torch.tensor([0.0, 0.9, 1.0, 0.4, 3.0]),
        "top_k": torch.tensor([50, 1, 3, 0, vocabulary]) if which in ("top_k", "all") else None,
        "top_p": torch.tensor([0.5, 0.9, 1.0, 0.6, 0.05]) if which in ("top_p", "all") else None,
        "rules": rules(g, vocabulary) if which == "all" else None,
    }
    random = noise(g)
    for draw in (15, -1):
        twin = draw_ids(logits, random, draw, **told)
        with only("triton"):
            ids, finite = draw_ids(logits, random, draw, **told)
        assert ids.tolist() == twin[0].tolist()
        assert finite.tolist() == twin[1].tolist() == [True] * ROWS


def test_the_twin_draws_what_the_cpu_engine_draws() -> None:
    g = torch.Generator().manual_seed(0)
    logits = torch.randn(64, 512, generator=g)
    random = noise(g, 64)
    temperature, top_k = torch.full((64,), 0.8), torch.full((64,), 40)
    key = draw_keys(frame_keys(random.seed, random.frame), 3)
    expected = sample_on_cpu(logits, key, temperature=temperature, top_k=top_k)
    ids, _ = draw_ids(logits, random, 3, temperature=temperature, top_k=top_k)
    assert ids.tolist() == expected.tolist()


@triton.jit  # type: ignore[untyped-decorator]
def write_uniforms(seeds, frames, draw, out, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def,name-defined] # noqa: N803
    row, ids = tl.program_id(0), tl.arange(0, BLOCK)
    u = uniforms_of(tl.load(seeds + row), tl.load(frames + row), draw, ids)
    tl.store(out + row * BLOCK + ids, u)


def test_the_kernel_s_noise_is_the_same_24_bits() -> None:
    random = noise(torch.Generator().manual_seed(3))
    for draw in (0, 7, -1):
        out = torch.empty(ROWS, 256)
        write_uniforms[(ROWS,)](random.seed, random.frame, draw, out, BLOCK=256)
        assert torch.equal(out, uniforms(draw_keys(random.keys, draw), 256))


@pytest.mark.parametrize("version", ["torch", "triton"])
def test_suppressed_ids_and_an_early_end_are_never_drawn(version: str) -> None:
    g = torch.Generator().manual_seed(1)
    told = rules(g, 30)
    logits = torch.zeros(ROWS, 30)
    logits[:, 15] = 50.0  # the end, by far
    logits[:, 20:] = 40.0  # suppressed
    with only(version):  # type: ignore[arg-type]
        ids, _ = draw_ids(logits, noise(g), 0, temperature=torch.ones(ROWS), rules=told)
    assert all(drawn != 15 for drawn in ids[:2].tolist())
    assert ids[2:].tolist() == [15] * 3
    assert all(drawn < 20 for drawn in ids.tolist())


@pytest.mark.parametrize("version", ["torch", "triton"])
def test_a_penalty_turns_a_greedy_choice_away_from_what_was_seen(version: str) -> None:
    told = rules(torch.Generator().manual_seed(1), 8)
    seen = torch.zeros(ROWS, 8, dtype=torch.bool)
    seen[:, 0] = True
    told = replace(told, seen=seen, penalty=torch.full((ROWS,), 2.0), suppressed=seen.new_zeros(8))
    logits = torch.tensor([1.5, 1.0, 0, 0, 0, 0, 0, 0]).repeat(ROWS, 1)
    random = noise(torch.Generator())
    with only(version):  # type: ignore[arg-type]
        ids, _ = draw_ids(logits, random, 0, temperature=torch.zeros(ROWS), rules=told)
    assert ids.tolist() == [1] * ROWS


@pytest.mark.parametrize("version", ["torch", "triton"])
@pytest.mark.parametrize("poison", [float("nan"), float("inf"), float("-inf")])
def test_a_row_that_is_not_finite_is_told_apart_and_harms_no_other(
    version: str, poison: float
) -> None:
    g = torch.Generator().manual_seed(4)
    logits = torch.randn(ROWS, 40, generator=g)
    random, temperature = noise(g), torch.full((ROWS,), 0.9)
    top_k = torch.full((ROWS,), 5)
    clean, _ = draw_ids(logits, random, 0, temperature=temperature, top_k=top_k)
    logits[1, 7] = poison
    logits[3] = poison
    with only(version):  # type: ignore[arg-type]
        ids, finite = draw_ids(logits, random, 0, temperature=temperature, top_k=top_k)
    assert finite.tolist() == [True, False, True, False, True]
    assert [ids[i] for i in (0, 2, 4)] == [clean[i] for i in (0, 2, 4)]
    assert all(0 <= drawn < 40 for drawn in ids.tolist())


def test_ties_at_the_edge_of_the_top_k_stay_in() -> None:
    logits = torch.tensor([[1.0, 1.0, 1.0, 0.0]]).repeat(200, 1)
    random = Noise(torch.arange(200), torch.zeros(200, dtype=torch.int64))
    told: dict[str, Any] = {"temperature": torch.ones(200), "top_k": torch.full((200,), 2)}
    twin, _ = draw_ids(logits, random, 0, **told)
    assert set(twin.tolist()) == {0, 1, 2}
    with only("triton"):
        ids, _ = draw_ids(
            logits[:20],
            Noise(random.seed[:20], random.frame[:20]),
            0,
            temperature=torch.ones(20),
            top_k=torch.full((20,), 2),
        )
    assert ids.tolist() == twin[:20].tolist()


def test_a_vocabulary_that_no_program_holds_is_sampled_by_the_twin() -> None:
    g = torch.Generator().manual_seed(5)
    logits = torch.randn(2, MOST_IDS + 1, generator=g)
    random, temperature = noise(g, 2), torch.ones(2)
    twin, _ = draw_ids(logits, random, 0, temperature=temperature)
    with only("triton"):
        ids, _ = draw_ids(logits, random, 0, temperature=temperature)
    assert ids.tolist() == twin.tolist()
