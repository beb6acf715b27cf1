"""Rules of sampling, held to transformers' definitions by hand."""

from __future__ import annotations

import torch
from torch import Tensor

from talker.models.qwen3_tts.config import TalkerConfig
from talker.models.qwen3_tts.sampling import Rules, warp

NEVER = float("-inf")


def rules(config: TalkerConfig) -> Rules:
    return Rules.of(config.talker_config)


def constrained(config: TalkerConfig, logits: Tensor, made: int, penalty: float = 1.0) -> Tensor:
    seen = torch.zeros(1, 3072, dtype=torch.bool)
    seen[0, [5, 6]] = True
    return rules(config).constrain(
        logits[None], seen, torch.tensor([made]), torch.tensor([penalty])
    )[0]


def test_control_ids_are_never_chosen_and_the_end_is(config: TalkerConfig) -> None:
    out = constrained(config, torch.zeros(3072), made=2)
    assert torch.isfinite(out).nonzero()[:, 0].tolist() == [*range(2048), 2150]


def test_the_end_may_not_come_within_two_frames(config: TalkerConfig) -> None:
    ends = [float(constrained(config, torch.ones(3072), made)[2150]) for made in range(4)]
    assert ends == [NEVER, NEVER, 1.0, 1.0]


def test_ids_heard_before_are_punished_on_either_side_of_zero(config: TalkerConfig) -> None:
    logits = torch.zeros(3072)
    logits[[5, 6, 7]] = torch.tensor([2.0, -2.0, 2.0])
    out = constrained(config, logits, 5, penalty=4.0)
    assert out[[5, 6, 7]].tolist() == [0.5, -8.0, 2.0]


def kept(logits: list[float], top_k: int = 0, top_p: float = 1.0, t: float = 1.0) -> list[int]:
    out = warp(
        torch.tensor([logits]), torch.tensor([t]), torch.tensor([top_k]), torch.tensor([top_p])
    )
    return torch.isfinite(out[0]).nonzero()[:, 0].tolist()


def test_the_largest_k_stay_and_ties_with_them() -> None:
    assert kept([1.0, 3.0, 2.0, 2.0, 0.0], top_k=2) == [1, 2, 3]
    assert kept([1.0, 3.0, 2.0], top_k=0) == [0, 1, 2]
    assert kept([1.0, 3.0, 2.0], top_k=9) == [0, 1, 2]


def test_the_smallest_set_that_holds_p_stays() -> None:
    logits = torch.tensor([0.5, 0.3, 0.15, 0.05]).log().tolist()
    assert kept(logits, top_p=0.6) == [0, 1]
    assert kept(logits, top_p=0.81) == [0, 1, 2]
    assert kept(logits, top_p=0.01) == [0]
    assert kept(logits, top_p=1.0) == [0, 1, 2, 3]


def test_p_counts_within_the_top_k() -> None:
    logits = torch.tensor([0.4, 0.3, 0.2, 0.1]).log().tolist()
    assert kept(logits, top_k=2, top_p=0.56) == [0]
    assert kept(logits, top_k=4, top_p=0.56) == [0, 1]


def test_each_row_has_its_own_settings() -> None:
    logits = torch.tensor([[1.0, 3.0, 2.0]]).repeat(3, 1)
    out = warp(
        logits,
        torch.tensor([1.0, 2.0, 1.0]),
        torch.tensor([0, 2, 1]),
        torch.tensor([1.0, 1.0, 0.5]),
    )
    assert out.tolist() == [[1.0, 3.0, 2.0], [NEVER, 1.5, 1.0], [NEVER, 3.0, NEVER]]
