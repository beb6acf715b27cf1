"""lora_config.json as package `voxcpm` writes it beside lora_weights.safetensors (2.0.3).

What its training switched on and aimed at follows from the tensors' names as well.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from ttscommon.cluster.adapters.tensors import shown
from ttscommon.wire.errors import InvalidAdapter

CONFIG: Final = "lora_config.json"
WEIGHTS: Final = "lora_weights.safetensors"
KEY: Final = "lora_config"
"""Under which the file has its settings; PEFT's has none of this name."""
NAME: Final = re.compile(r"([A-Za-z0-9_]+(?:\.[A-Za-z0-9_]+)*)\.(lora_[AB])")
"""Of a tensor, whose module is named as the model has it."""
_READ: Final = frozenset(("r", "alpha"))
_IGNORED: Final = frozenset(
    (
        *("enable_lm", "enable_dit", "enable_proj", "dropout"),
        *("target_modules_lm", "target_modules_dit", "target_proj_modules"),
    )
)


def settings(told: Mapping[str, Any]) -> Mapping[str, Any]:
    """Rank and alpha by PEFT's names; raises InvalidAdapter for what is not served."""
    given = told[KEY]
    if not isinstance(given, dict):
        raise InvalidAdapter(f"{KEY} of {CONFIG} is an object")
    for name, value in given.items():
        if value and name not in _READ | _IGNORED:
            raise InvalidAdapter(f"{shown(name)} of {CONFIG} is not served")
    return {"peft_type": "LORA", "r": given.get("r", 8), "lora_alpha": given.get("alpha", 16)}
