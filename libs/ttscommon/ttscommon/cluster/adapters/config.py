"""adapter_config.json as PEFT writes it: what of it counts, and what is refused by name.

Package `voxcpm` has a file of its own, which says less.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

import msgspec

from ttscommon.cluster.adapters import voxcpm
from ttscommon.cluster.adapters.tensors import shown
from ttscommon.wire.errors import InvalidAdapter

T = TypeVar("T")

MOST_BYTES: Final = 256 << 10
_MOST_RANK: Final = 1 << 16
_MOST_PATTERNS: Final = 4096
_PEFTS: Final = re.compile(
    r"base_model\.model\.([A-Za-z0-9_]+(?:\.[A-Za-z0-9_]+)*)\.(lora_[AB])\.weight"
)
_LITERAL: Final = re.compile(r"\^?[A-Za-z0-9_.]{1,300}")
_ALL_LINEAR: Final = "all-linear"
# What says how training went, where the files came from, or repeats what the tensors' names say.
_IGNORED: Final = frozenset(
    {
        *("task_type", "auto_mapping", "peft_version", "base_model_name_or_path", "revision"),
        *("inference_mode", "exclude_modules", "lora_dropout", "layers_to_transform"),
        *("layers_pattern", "megatron_core", "qalora_group_size", "runtime_config", "eva_config"),
    }
)
_READ: Final = frozenset(
    {
        *("peft_type", "r", "lora_alpha", "use_rslora", "rank_pattern", "alpha_pattern"),
        *("target_modules", "bias", "init_lora_weights"),
    }
)
# Beginnings of training that leave the model's own weights as they are.
_HARMLESS: Final = (None, True, False, "gaussian", "eva", "orthogonal")


@dataclass(frozen=True)
class LoraConfig:
    """Ranks and scales. targets: ends of modules' names; empty where the file does not list them.

    A pattern names modules by their whole name or an end of it behind a dot. names: of tensors,
    which have the module and the half of it that each is.
    """

    rank: int
    alpha: float
    rslora: bool
    ranks: Mapping[str, int]
    alphas: Mapping[str, float]
    targets: frozenset[str]
    names: re.Pattern[str] = _PEFTS

    @classmethod
    def parse(cls, data: bytes) -> LoraConfig:
        """Raises InvalidAdapter, which names what is not served."""
        told = _object(data)
        if voxcpm.KEY in told:
            return replace(cls._parsed(voxcpm.settings(told)), names=voxcpm.NAME)
        return cls._parsed(told)

    @classmethod
    def _parsed(cls, told: Mapping[str, Any]) -> LoraConfig:
        _refuse(told)
        return cls(
            _rank("r", told.get("r", 8)),
            _number("lora_alpha", told.get("lora_alpha", 8)),
            _switch("use_rslora", told.get("use_rslora", False)),
            {name: _rank("rank_pattern", n) for name, n in _pattern(told, "rank_pattern")},
            {name: _number("alpha_pattern", n) for name, n in _pattern(told, "alpha_pattern")},
            _targets(told.get("target_modules")),
        )

    def of(self, module: str) -> tuple[int, float]:
        """Rank of a module, and what its product is scaled by; raises InvalidAdapter."""
        names = _names(module)
        if self.targets and self.targets.isdisjoint(names):
            raise InvalidAdapter(f"{shown(module)} is none of the config's target_modules")
        rank, alpha = _first(self.ranks, names, self.rank), _first(self.alphas, names, self.alpha)
        return rank, alpha / (math.sqrt(rank) if self.rslora else rank)


def _names(module: str) -> list[str]:
    """What a pattern may call it: the whole of its name, with `^` too, or an end behind a dot."""
    dots = (at for at, one in enumerate(module) if one == ".")
    return [f"^{module}", module, *(module[at + 1 :] for at in dots)]


def _first(table: Mapping[str, T], names: Sequence[str], default: T) -> T:
    """Of the names that a table has, the one that stands first in it."""
    found = [name for name in names if name in table]
    if len(found) > 1:
        found = [next(name for name in table if name in found)]
    return table[found[0]] if found else default


def _object(data: bytes) -> dict[str, Any]:
    if len(data) > MOST_BYTES:
        raise InvalidAdapter(f"adapter_config.json has over {MOST_BYTES >> 10} KiB")
    try:
        return msgspec.json.decode(data, type=dict[str, Any])
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise InvalidAdapter(f"adapter_config.json cannot be read: {error}") from error


def _refuse(told: Mapping[str, Any]) -> None:
    """Raises InvalidAdapter for everything that would change what is computed and is not served."""
    if told.get("peft_type") != "LORA":
        raise InvalidAdapter(
            f"peft_type {shown(str(told.get('peft_type')))} is not served: LORA is"
        )
    if told.get("bias", "none") != "none":
        raise InvalidAdapter("bias is not served: train with bias='none'")
    begun = told.get("init_lora_weights")
    if not any(begun is one or (isinstance(one, str) and begun == one) for one in _HARMLESS):
        raise InvalidAdapter(
            f"init_lora_weights {shown(str(begun))} changes the model's own weights: save the"
            " adapter with path_initial_model_for_weight_conversion"
        )
    for name, value in told.items():
        if value and name not in _IGNORED and name not in _READ:
            raise InvalidAdapter(f"{shown(name)} of adapter_config.json is not served")


def _rank(name: str, value: Any) -> int:
    if type(value) is not int or not 1 <= value <= _MOST_RANK:
        raise InvalidAdapter(f"{name} of adapter_config.json is a whole number of 1 or more")
    return value


def _number(name: str, value: Any) -> float:
    if type(value) not in (int, float) or not math.isfinite(value) or abs(value) > 1e6:
        raise InvalidAdapter(f"{name} of adapter_config.json is a number")
    return float(value)


def _switch(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise InvalidAdapter(f"{name} of adapter_config.json is true or false")
    return value


def _pattern(told: Mapping[str, Any], name: str) -> list[tuple[str, Any]]:
    """Names of modules and their values. An upload's expression could take hours to match."""
    found = told.get(name) or {}
    if not isinstance(found, dict) or len(found) > _MOST_PATTERNS:
        raise InvalidAdapter(f"{name} of adapter_config.json is an object of names")
    for key in found:
        if not _LITERAL.fullmatch(key):
            raise InvalidAdapter(
                f"{name} has the expression {shown(key)}: names of modules alone are served"
            )
    return list(found.items())


def _targets(value: Any) -> frozenset[str]:
    if value is None or value == _ALL_LINEAR:
        return frozenset()
    if isinstance(value, str):  # an expression: the tensors' names say the same
        return frozenset([value] if _LITERAL.fullmatch(value) else [])
    if isinstance(value, list) and all(isinstance(name, str) for name in value):
        return frozenset(value)
    raise InvalidAdapter("target_modules of adapter_config.json is a list of names")
