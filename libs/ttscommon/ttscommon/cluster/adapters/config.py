"""An adapter's uploaded files, read without trust: its tensors, and PEFT's or VoxCPM's config."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeGuard, TypeVar

import msgspec
import numpy as np

from ttscommon.wire.errors import InvalidAdapter
from ttscommon.wire.fields import Array

_LENGTH_BYTES: Final = 8
_MOST_HEADER_BYTES: Final = 4 << 20
_MOST_TENSORS: Final = 16_384
_MOST_AXES: Final = 8
_METADATA: Final = "__metadata__"
_TYPES: Final[dict[str, np.dtype[Any]]] = {
    "F32": np.dtype("<f4"),
    "F16": np.dtype("<f2"),
    "BF16": np.dtype("<u2"),
}


@dataclass(frozen=True)
class StoredTensor:
    """A tensor where it lies in the file."""

    kind: str
    shape: tuple[int, ...]
    data: memoryview

    def array(self, scale: float = 1.0) -> Array:
        """Its values times `scale`, float32; raises InvalidAdapter for any that is not finite."""
        raw: Array = np.frombuffer(self.data, _TYPES[self.kind])
        if self.kind == "BF16":
            raw = (raw.astype(np.uint32) << 16).view(np.float32)
        with np.errstate(over="ignore"):
            values: Array = raw.astype(np.float32).reshape(self.shape) * np.float32(scale)
        if not np.isfinite(values).all():
            raise InvalidAdapter("the adapter holds values that are no finite numbers")
        return values


def read_tensors(file: bytes) -> dict[str, StoredTensor]:
    """The tensors of a file by name; raises InvalidAdapter for one that is not as it has to be."""
    length = int.from_bytes(file[:_LENGTH_BYTES], "little")
    start = _LENGTH_BYTES + length
    if len(file) < _LENGTH_BYTES or length > _MOST_HEADER_BYTES or start > len(file):
        raise InvalidAdapter("the weights are no safetensors file, or a truncated one")
    header = _header(file[_LENGTH_BYTES:start])
    data = memoryview(file)[start:]
    found, at = {}, 0
    for name, told in sorted(header.items(), key=lambda item: _begin(*item)):
        found[name], at = _tensor(name, told, data, at)
    if at != len(data):
        raise InvalidAdapter("the weights are truncated, or have bytes that belong to no tensor")
    return found


def _header(text: bytes) -> dict[str, Any]:
    try:
        header = msgspec.json.decode(text, type=dict[str, dict[str, Any]])
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise InvalidAdapter(f"the header of the weights cannot be read: {error}") from error
    header.pop(_METADATA, None)
    if not 0 < len(header) <= _MOST_TENSORS:
        raise InvalidAdapter(f"the weights hold {len(header)} tensors; 1 to {_MOST_TENSORS} do")
    return header


def _begin(name: str, told: Mapping[str, Any]) -> tuple[int, int]:
    match told.get("data_offsets"):
        case [int(begin), int(end)] if 0 <= begin <= end:
            return begin, end
    raise InvalidAdapter(f"{shown(name)} has no place in the weights")


def _tensor(
    name: str, told: Mapping[str, Any], data: memoryview, at: int
) -> tuple[StoredTensor, int]:
    """The tensor that begins at `at`, and where it ends: none overlap and nothing lies between."""
    begin, end = _begin(name, told)
    kind, shape = told.get("dtype"), told.get("shape")
    if kind not in _TYPES:
        known = ", ".join(_TYPES)
        raise InvalidAdapter(f"{shown(name)} is {shown(str(kind))}; {known} are taken")
    if not _is_shape(shape):
        raise InvalidAdapter(f"{shown(name)} has no shape")
    size = _TYPES[kind].itemsize
    for count in shape:
        size *= count
    if begin != at or end > len(data) or size != end - begin:
        raise InvalidAdapter(f"{shown(name)} does not lie where the weights say: they are damaged")
    return StoredTensor(kind, tuple(shape), data[begin:end]), end


def _is_shape(shape: Any) -> TypeGuard[list[int]]:
    """Few axes: a product of a million of them takes minutes."""
    few = isinstance(shape, list) and len(shape) <= _MOST_AXES
    return few and all(type(n) is int and n > 0 for n in shape)


def shown(name: str, most: int = 120) -> str:
    """A name from an upload, fit for a message."""
    return repr(name if len(name) <= most else f"{name[:most]}...")


VOXCPM_CONFIG: Final = "lora_config.json"
VOXCPM_WEIGHTS: Final = "lora_weights.safetensors"
VOXCPM_KEY: Final = "lora_config"
"""Under which the file has its settings; PEFT's has none of this name."""
VOXCPM_TENSOR: Final = re.compile(r"([A-Za-z0-9_]+(?:\.[A-Za-z0-9_]+)*)\.(lora_[AB])")
"""Of a tensor, whose module is named as the model has it."""
_VOXCPM_READ: Final = frozenset(("r", "alpha"))
_VOXCPM_IGNORED: Final = frozenset(
    (
        *("enable_lm", "enable_dit", "enable_proj", "dropout"),
        *("target_modules_lm", "target_modules_dit", "target_proj_modules"),
    )
)


def voxcpm_settings(told: Mapping[str, Any]) -> Mapping[str, Any]:
    """Rank and alpha by PEFT's names; raises InvalidAdapter for what is not served."""
    given = told[VOXCPM_KEY]
    if not isinstance(given, dict):
        raise InvalidAdapter(f"{VOXCPM_KEY} of {VOXCPM_CONFIG} is an object")
    for name, value in given.items():
        if value and name not in _VOXCPM_READ | _VOXCPM_IGNORED:
            raise InvalidAdapter(f"{shown(name)} of {VOXCPM_CONFIG} is not served")
    return {"peft_type": "LORA", "r": given.get("r", 8), "lora_alpha": given.get("alpha", 16)}


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
        if VOXCPM_KEY in told:
            return replace(cls._parsed(voxcpm_settings(told)), names=VOXCPM_TENSOR)
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
