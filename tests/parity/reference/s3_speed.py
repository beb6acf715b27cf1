"""What a second of sound costs in CosyVoice 2's own streaming loop; see tests/parity/s3_speed.py.

`CosyVoice2Model.token2wav`, called as `tts` calls it: hops of 25 tokens, of which the first is
longer so as to end on the grid, each over all that came before.
"""

from __future__ import annotations

import json
import math
import sys
import time
from pathlib import Path
from typing import Any

import torch

from tests.parity import s3_cases as cases
from tests.parity.reference import s3_flow

HOP = 25


def main(folder: Path, count: int, rounds: int) -> None:
    """Print seconds of each of `rounds` streams of `count` tokens, and those to its first sound."""
    torch.set_num_threads(1)
    tensors = s3_flow.load_one(folder)
    flow, hift = s3_flow.cosyvoice_networks(tensors)
    flow.float()
    hift.float()
    s3_flow.quiet(
        "cosyvoice.utils.file_utils",
        export_cosyvoice2_vllm=None,
        convert_onnx_to_trt=None,
        logging=None,
    )
    from cosyvoice.cli.model import CosyVoice2Model

    model = CosyVoice2Model(None, flow, hift)
    took = []
    for number in range(rounds + 1):
        started = time.process_time()
        first = _stream(model, count, str(number))
        took.append((time.process_time() - started, first - started))
    print(json.dumps(took[1:]))


def _stream(model: Any, count: int, name: str) -> float:
    """When the first sound was there."""
    said = s3_flow.given(torch.float32)
    model.hift_cache_dict[name] = None
    tokens = torch.arange(count).view(1, -1) * 61 % 6561
    prompt, offset, first = said["prompt_token"], 0, 0.0
    pad = math.ceil(cases.PROMPT / HOP) * HOP - cases.PROMPT
    told = {
        "prompt_token": prompt,
        "prompt_feat": said["prompt_feat"],
        "embedding": said["embedding"],
    }
    while count - offset >= (hop := HOP + (0 if offset else pad)) + 3:
        part = tokens[:, : offset + hop + 3]
        model.token2wav(part, **told, token_offset=offset, uuid=name, stream=True, finalize=False)
        offset += hop
        first = first or time.process_time()
    model.token2wav(tokens, **told, token_offset=offset, uuid=name, finalize=True)
    return first


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
