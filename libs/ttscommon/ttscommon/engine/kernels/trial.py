"""A trial before anything is served: where no kernel compiles, their twins compute."""

from __future__ import annotations

from typing import Final

import structlog
import torch

from ttscommon.engine.device.needs import compiling
from ttscommon.engine.inflight import reason
from ttscommon.engine.kernels.blocks import swiglu
from ttscommon.engine.kernels.choice import settle

_CLOSE: Final = 1e-5

log_ = structlog.get_logger(__name__)


def kernels_or_twins(where: torch.device) -> bool:
    """Whether kernels compute in this process from now on. If not, the log says why: speech is
    slower then, and is spoken.
    """
    problems = compiling()
    if not problems:
        try:
            problems = _tried(where)
        except Exception as error:  # noqa: BLE001 -- whatever a compiler or a driver raises
            problems = [reason(error)]
    if problems:
        settle("torch")
        log_.warning("kernels.plain", why=" ".join(problems), effect="steps take longer")
    return not problems


@torch.inference_mode()
def _tried(where: torch.device) -> list[str]:
    x = torch.linspace(-4.0, 4.0, 128, device=where).view(2, 64)
    gate, up = x.chunk(2, -1)
    difference = (swiglu(x) - torch.nn.functional.silu(gate) * up).abs().max()
    return [] if difference < _CLOSE else [f"a kernel is {difference} off its twin"]
