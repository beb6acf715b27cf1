"""Which adapters are compared, as arguments of PEFT's LoraConfig. No torch."""

from dataclasses import dataclass
from typing import Any, Final

from tests.parity.cases import CASES

CHECKPOINT: Final = "custom"
CASE: Final = next(case for case in CASES if case.name == "whole text")
_ATTENTION: Final = ["q_proj", "k_proj", "v_proj", "o_proj"]
_MLP: Final = ["gate_proj", "up_proj", "down_proj"]


@dataclass(frozen=True)
class AdapterCase:
    """root: the part of the model that training had in hand."""

    name: str
    config: dict[str, Any]
    root: str = ""
    seed: int = 0


ADAPTERS: Final = (
    AdapterCase("attention", {"r": 4, "lora_alpha": 2, "target_modules": _ATTENTION}),
    AdapterCase(
        "rank-stabilised",
        {
            "r": 4,
            "lora_alpha": 1,
            "use_rslora": True,
            "target_modules": r"talker\.model\..*(q_proj|down_proj)",
        },
        seed=1,
    ),
    AdapterCase(
        "talker alone, with patterns",
        {
            "r": 2,
            "lora_alpha": 1,
            "target_modules": [*_ATTENTION, *_MLP, "codec_head", "linear_fc1"],
            "rank_pattern": {"q_proj": 6, "layers.1.mlp.up_proj": 3},
            "alpha_pattern": {"down_proj": 2},
        },
        root="talker",
        seed=2,
    ),
    AdapterCase(
        "code predictor",
        {"r": 3, "lora_alpha": 2, "target_modules": r".*code_predictor\.model\..*_proj"},
        seed=3,
    ),
)
