"""The reference's part of the comparison: streams every text that it reads, one by one."""

from __future__ import annotations

import json
import logging
import sys
import time
from pathlib import Path

from tests.parity.reference.pocket_tts import model_of


def main() -> None:
    """Time `generate_audio_stream` to its first samples and to its end."""
    logging.disable(logging.WARNING)
    folder, most = Path(sys.argv[1]), int(sys.argv[2])
    model, _ = model_of(folder)
    model._estimate_max_gen_len = lambda _: most
    voice = model.get_state_for_audio_prompt(folder / "embeddings" / "slt.safetensors")
    for line in sys.stdin:
        began_s, first_s, samples = time.perf_counter(), 0.0, 0
        for sound in model.generate_audio_stream(voice, line.strip()):
            first_s = first_s or time.perf_counter() - began_s
            samples += len(sound)
        took_s = time.perf_counter() - began_s
        print(json.dumps({"first_s": first_s, "rate": samples / 1920 / took_s}), flush=True)


if __name__ == "__main__":
    main()
