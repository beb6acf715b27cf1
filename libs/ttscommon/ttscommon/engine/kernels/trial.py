"""A trial before anything is served: where kernels fail on this device, their twins compute."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import structlog
import torch
from torch import Tensor

from ttscommon.engine.device.needs import compiling
from ttscommon.engine.inflight import reason
from ttscommon.engine.kernels.blocks import HeadRotation, add_norm, swiglu
from ttscommon.engine.kernels.choice import only, settle
from ttscommon.engine.kernels.experts import mix_experts
from ttscommon.engine.kernels.few_rows import multiply
from ttscommon.engine.kernels.lora import add_lora

# Of bfloat16, in another order.
_ROUNDED: Final = 2e-2

Compute = Callable[[torch.device], Sequence[Tensor]]

log_ = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Trial:
    """A kernel beside its twin.

    compute: the kernel's results of inputs that are the same each time; plain: the twin's, None
    where `compute` asks which version is chosen. close: largest difference for a number of 1.
    """

    name: str
    compute: Compute
    plain: Compute | None = None
    close: float = 1e-5

    def problem(self, where: torch.device) -> str | None:
        """Why this kernel is not to be trusted on a device; None if it is."""
        try:
            with only("torch"):
                plain = (self.plain or self.compute)(where)
            with only("triton"):
                fused = self.compute(where)
            off = max(map(_off, fused, plain))
        except Exception as error:  # noqa: BLE001 -- whatever a compiler or a driver raises
            return f"{self.name}: {reason(error)}"
        # A difference of NaN is no agreement either.
        return None if off < self.close else f"{self.name}: {off:.2g} off its twin"


def _off(fused: Tensor, plain: Tensor) -> float:
    a, b = fused.double(), plain.double()
    return float(((a - b).abs() / b.abs().clamp(min=1)).max())


def drawn(where: torch.device, *shape: int, seed: int = 0) -> Tensor:
    """The same numbers on every device."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator).to(where)


def narrow(where: torch.device) -> torch.dtype:
    """What weights and caches are made of there."""
    return torch.bfloat16 if where.type == "cuda" else torch.float32


def _norm(where: torch.device) -> Sequence[Tensor]:
    x, added = drawn(where, 2, 3, 2048)
    return add_norm(x, added, drawn(where, 2048, seed=1), 1e-6)


def _swiglu(where: torch.device) -> Sequence[Tensor]:
    return [swiglu(drawn(where, 3, 2 * 1536))]


def _rotation(where: torch.device) -> Sequence[Tensor]:
    angles, weights = drawn(where, 3, 64), drawn(where, 2, 128, seed=1)
    rotation = HeadRotation((16, 8, 8), angles.cos(), angles.sin(), *weights)
    return [rotation.queries(drawn(where, 3, 16, 128))]


def _few_rows(where: torch.device) -> Sequence[Tensor]:
    x, added = drawn(where, 2, 3, 1024).to(narrow(where))
    weight = drawn(where, 2 * 1024, 1024, seed=1).to(x.dtype) / 32
    norm = drawn(where, 1024, seed=2).abs().to(x.dtype)
    risen = multiply(x, weight, norm=norm, eps=1e-6, gated=True)
    return risen, multiply(x, weight[:1024], added=added, dtype=torch.float32)


def _adapters(where: torch.device) -> Sequence[Tensor]:
    x, out = drawn(where, 2, 3, 64).to(narrow(where))
    a, b = drawn(where, 2, 16, 64, seed=1) / 8, drawn(where, 2, 64, 16, seed=2) / 4
    add_lora(x, out, torch.tensor([0, 2, 1], device=where), a.to(x.dtype), b.to(x.dtype))
    return [out]


def _experts(where: torch.device) -> Sequence[Tensor]:
    x, chosen = drawn(where, 3, 64), torch.tensor([[0, 2], [3, 1], [2, 1]], device=where)
    rise, down = drawn(where, 2, 4, 32, 64, seed=1) / 8, drawn(where, 4, 64, 32, seed=2) / 8
    told = (each.to(narrow(where)) for each in (*rise, down))
    weights = drawn(where, 3, 2, seed=3).softmax(-1)
    return [mix_experts(x.to(narrow(where)), chosen, weights, *told)]


BLOCKS: Final = (
    Trial("norm", _norm),
    Trial("swiglu", _swiglu),
    Trial("rotation", _rotation),
    Trial("products of few rows", _few_rows, close=_ROUNDED),
    Trial("adapters", _adapters, close=_ROUNDED),
    Trial("experts", _experts, close=_ROUNDED),
)


def kernels_or_twins(where: torch.device, trials: Sequence[Trial] = ()) -> bool:
    """Whether kernels compute in this process from now on. If not, the log says why: speech is
    slower then, and is spoken.
    """
    problems = compiling() or problems_of((*BLOCKS, *trials), where)
    if problems:
        plain_from_now_on(" ".join(problems))
    return not problems


@torch.inference_mode()
def problems_of(trials: Sequence[Trial], where: torch.device) -> list[str]:
    """Of all that fail."""
    return [problem for trial in trials if (problem := trial.problem(where)) is not None]


def plain_from_now_on(why: str) -> None:
    """Have twins compute in this process, and say so."""
    settle("torch")
    log_.warning("kernels.plain", why=why, effect="steps take longer")
