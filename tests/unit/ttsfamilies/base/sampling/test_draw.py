"""One draw: kernel, definition and the CPU's shorter ways choose the same ids.

That the kernel draws as its twin whatever it is told is in ../kernels/test_random_cases.py.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from ttscommon.engine.kernels.choice import Version, only
from ttsfamilies.base.sampling import MOST_IDS, Noise, Rules, Settings, draw_alone, draw_ids
from ttsfamilies.base.sampling.draw import sample

pytest.importorskip("triton")

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


@pytest.mark.parametrize("top_p", [None, [1.0] * 64, [0.3, 0.7, 0.9, 1.0] * 16])
@pytest.mark.parametrize("top_k", [None, [40] * 64, [0, 5, 63, 64, 200, 512, 1, 70] * 8])
@pytest.mark.parametrize("ruled", [False, True])
def test_the_cpu_s_shorter_ways_draw_what_the_definition_says(
    top_p: list[float] | None, top_k: list[int] | None, ruled: bool
) -> None:
    g = torch.Generator().manual_seed(0)
    logits = 2 * torch.randn(64, 512, generator=g)
    told = rules(g, 512, 64) if ruled else None
    settings = Settings(
        torch.linspace(0.0, 1.5, 64),
        None if top_k is None else torch.tensor(top_k),
        None if top_p is None else torch.tensor(top_p),
    )
    random = noise(g, 64)
    for draw in range(3):
        expected, _ = sample(logits, random, draw, settings, told)
        ids, _ = draw_ids(logits, random, draw, settings, told)
        assert ids.tolist() == expected.tolist()


def test_greedy_rows_of_a_wide_vocabulary_ask_for_no_noise() -> None:
    asked: list[int] = []

    class Counted(Noise):
        def gumbel(self, draw: int, ids: torch.Tensor | int) -> torch.Tensor:
            asked.append(len(self.seed))
            return super().gumbel(draw, ids)

        def rows(self, index: torch.Tensor) -> Counted:
            return Counted(self.seed[index], self.frame[index])

    g = torch.Generator().manual_seed(3)
    logits, random = torch.randn(6, 2051, generator=g), noise(g, 6)
    counted = Counted(random.seed, random.frame)
    temperatures, top_k = torch.tensor([0.9, 0.0, 0.0, 0.7, 0.9, 1.0]), torch.tensor([50, 0] * 3)
    for top_p, rows in ((None, [4]), (torch.tensor([1.0, 0.8] * 3), [2, 2])):
        settings = Settings(temperatures, top_k, top_p)
        found = draw_alone(logits, counted, 2, settings)
        assert found.tolist() == sample(logits, random, 2, settings)[0].tolist()
        assert asked == rows
        asked.clear()


def test_suppressed_ids_and_an_early_end_are_never_drawn() -> None:
    g = torch.Generator().manual_seed(1)
    told = rules(g, 30)
    logits = torch.zeros(ROWS, 30)
    logits[:, 15] = 50.0  # the end, by far
    logits[:, 20:] = 40.0  # suppressed
    ids, _ = draw_ids(logits, noise(g), 0, Settings(torch.ones(ROWS)), told)
    assert all(drawn != 15 for drawn in ids[:2].tolist())
    assert ids[2:].tolist() == [15] * 3
    assert all(drawn < 20 for drawn in ids.tolist())


def test_a_penalty_turns_a_greedy_choice_away_from_what_was_seen() -> None:
    told = rules(torch.Generator().manual_seed(1), 8)
    seen = torch.zeros(ROWS, 8, dtype=torch.bool)
    seen[:, 0] = True
    told = replace(told, seen=seen, penalty=torch.full((ROWS,), 2.0), suppressed=seen.new_zeros(8))
    logits = torch.tensor([1.5, 1.0, 0, 0, 0, 0, 0, 0]).repeat(ROWS, 1)
    ids, _ = draw_ids(logits, noise(torch.Generator()), 0, Settings(torch.zeros(ROWS)), told)
    assert ids.tolist() == [1] * ROWS


@pytest.mark.parametrize("version", ["torch", "triton"])
@pytest.mark.parametrize("poison", [float("nan"), float("inf"), float("-inf")])
def test_a_row_that_is_not_finite_is_told_apart_and_harms_no_other(
    version: Version, poison: float
) -> None:
    g = torch.Generator().manual_seed(4)
    logits = torch.randn(ROWS, 40, generator=g)
    random = noise(g)
    settings = Settings(torch.full((ROWS,), 0.9), torch.full((ROWS,), 5))
    clean, _ = draw_ids(logits, random, 0, settings)
    logits[1, 7] = poison
    logits[3] = poison
    with only(version):
        ids, finite = draw_ids(logits, random, 0, settings)
    assert finite.tolist() == [True, False, True, False, True]
    assert [ids[i] for i in (0, 2, 4)] == [clean[i] for i in (0, 2, 4)]
    assert all(0 <= drawn < 40 for drawn in ids.tolist())


def test_ties_at_the_edge_of_the_top_k_stay_in() -> None:
    logits = torch.tensor([[1.0, 1.0, 1.0, 0.0]]).repeat(200, 1)
    random = Noise(torch.arange(200), torch.zeros(200, dtype=torch.int64))
    ids, _ = draw_ids(logits, random, 0, Settings(torch.ones(200), torch.full((200,), 2)))
    assert set(ids.tolist()) == {0, 1, 2}


def test_a_vocabulary_that_no_program_holds_is_sampled_by_the_twin() -> None:
    g = torch.Generator().manual_seed(5)
    logits = torch.randn(2, MOST_IDS + 1, generator=g)
    random, settings = noise(g, 2), Settings(torch.ones(2))
    twin, _ = draw_ids(logits, random, 0, settings)
    with only("triton"):
        ids, _ = draw_ids(logits, random, 0, settings)
    assert ids.tolist() == twin.tolist()


def test_the_frequencies_follow_the_softmax() -> None:
    logits = torch.tensor([2.0, 1.0, 0.0, -1.0]).repeat(20_000, 1)
    random = Noise(torch.full((20_000,), 3), torch.arange(20_000))
    ids, _ = draw_ids(logits, random, 1, Settings(torch.ones(20_000)))
    assert torch.allclose(ids.bincount() / 20_000, logits[0].softmax(-1), atol=0.015)
