"""Rules of sampling, held to transformers' definitions by hand."""

import torch
from torch import Tensor

from ttsfamilies.qwen3_tts.config import TalkerConfig
from ttsfamilies.qwen3_tts.stream import Prohibitions

NEVER = float("-inf")


def constrained(config: TalkerConfig, logits: Tensor, made: int, penalty: float = 1.0) -> Tensor:
    seen = torch.zeros(1, 3072, dtype=torch.bool)
    seen[0, [5, 6]] = True
    never = Prohibitions.of(config.talker_config)
    rules = never.rules(seen, torch.tensor([made]), torch.tensor([penalty]))
    return rules.applied(logits[None])[0]


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
