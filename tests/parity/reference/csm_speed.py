"""The reference's part of the comparison: speaks once for every batch that it reads."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import torch

from tests.parity.csm_cases import SPEED_FRAMES, Case
from tests.parity.reference.csm import AUDIO, drawing, model_of, prompt


def main() -> None:
    """Time `generate` alone, without the decoding of its codes."""
    torch.set_num_threads(1)
    folder, case = Path(sys.argv[1]), Case("speed", temperature=(0.9, 0.9))
    model, asked = model_of(folder), prompt(folder, case)
    for line in sys.stdin:
        batch = {name: tensor.expand(int(line), -1) for name, tensor in asked.items()}
        began_s = time.perf_counter()
        with torch.inference_mode():
            found = model.generate(
                **batch, max_new_tokens=SPEED_FRAMES, pad_token_id=AUDIO, **drawing(case)
            )
        took_s = time.perf_counter() - began_s
        frames = found.shape[0] * found.shape[1]
        print(json.dumps({"rate": frames / took_s}), flush=True)


if __name__ == "__main__":
    main()
