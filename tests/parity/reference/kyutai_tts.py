"""Goldens of Kyutai TTS and of Mimi in Kyutai's own files, by Kyutai's package `moshi`.

The package's own TTSModel, LMGen and MimiModel, loaded as it loads a published folder; draws take
the goldens' noise. What of the codec only its encoder needs is not in the folders.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

from tests.parity.reference.bare import quiet

os.environ["NO_TORCH_COMPILE"] = "1"
for absent in ("sphn", "sounddevice", "bitsandbytes"):  # they play sound, or quantise
    quiet(absent)

import numpy as np  # noqa: E402
import torch  # noqa: E402
from moshi.models.lm import LMGen  # noqa: E402
from moshi.models.loaders import CheckpointInfo, get_mimi, get_moshi_lm  # noqa: E402
from moshi.models.tts import TTSModel  # noqa: E402
from moshi.utils import sampling  # noqa: E402
from safetensors.torch import load_file  # noqa: E402

from tests.parity.kyutai_cases import CASES, IDS, PUBLISHED, TEXT, Case, codes, settings  # noqa: E402
from tests.parity.material import gumbel  # noqa: E402

_OTHER = ("moshi_name", "mimi_name", "mimi_config_name", "tokenizer_name", "model_type")
PROJECTIONS = {"in": "in_proj_weight", "out": "out_proj.weight"}
_PARTS = ("lm_gen_config", "tts_config", "model_id")


def told(folder: Path) -> CheckpointInfo:
    """As `CheckpointInfo.from_hf_repo` reads a config.json."""
    raw = json.loads((folder / "config.json").read_text("utf-8"))
    sizes = {name: value for name, value in raw.items() if name not in (*_OTHER, *_PARTS)}
    return CheckpointInfo(
        folder / raw.get("moshi_name", "model.safetensors"),
        folder / raw["mimi_name"],
        folder / raw["tokenizer_name"],
        sizes,
        raw,
        json.loads((folder / raw["mimi_config_name"]).read_text("utf-8")),
        raw["model_type"],
        **{name: raw[name] for name in _PARTS},
    )


def codec_of(folder: Path) -> Any:
    """The decoder is loaded as published, the encoder stays as it was drawn."""
    info = told(folder)
    codec = get_mimi(None, info.mimi_config, num_codebooks=info.lm_config["n_q"])
    missing, surplus = codec.load_state_dict(load_file(info.mimi_weights), strict=False)
    unheard = ("encoder", "downsample.", "quantizer.rvq_first.input", "quantizer.rvq_rest.input")
    books = tuple(name for name in missing if name.endswith("_initialized"))
    assert not surplus
    assert not [name for name in missing if not name.startswith(unheard) and name not in books]
    return codec


@cache
def model_of(folder: Path, initial: int = 2, most: int = 8) -> TTSModel:
    """The reference."""
    info = told(folder)
    info.get_mimi = lambda device="cpu": codec_of(folder)  # type: ignore[method-assign]
    codebooks = info.lm_config["n_q"]
    return TTSModel.from_checkpoint_info(
        *(info, initial, most), dtype=torch.float32, n_q=codebooks, temp=0.6
    )


@contextmanager
def keyed_noise(seed: int, codebooks: int, lead: int) -> Iterator[None]:
    """Draws become a function of (seed, step, draw): single requests only.

    The first draw of a step is the text's; behind it come those of the codes, unless the step is
    one of the first `lead`, which draw none.
    """
    step, draw = -1, codebooks

    def keyed(probabilities: torch.Tensor, k: int) -> torch.Tensor:
        nonlocal step, draw
        if draw >= codebooks or (step < lead and draw >= 0):
            step, draw = step + 1, -1
        elif draw < 0 and step < lead:
            step += 1
        mine, draw = (codebooks if draw < 0 else draw), draw + 1
        best, ids = torch.topk(probabilities, min(k, probabilities.shape[-1]), -1)
        noise = torch.from_numpy(gumbel(seed, step, mine, IDS))[ids]
        return ids.gather(-1, (best.log() + noise).argmax(-1, keepdim=True))

    with patch.object(sampling, "sample_top_k", keyed):
        yield


@contextmanager
def drawn_rows() -> Iterator[list[torch.Tensor]]:
    """What each step draws, [1, codebooks], before delays put it in order."""
    plain, rows = LMGen.depformer_step, list[torch.Tensor]()

    def recorded(self: LMGen, *given: torch.Tensor) -> torch.Tensor:
        rows.append(plain(self, *given))
        return rows[-1].clone()  # its codes are changed in place

    with patch.object(LMGen, "depformer_step", recorded):
        yield rows


def voice_path(folder: Path, name: str) -> Path:
    """Where a voice's file is."""
    run = json.loads((folder / "config.json").read_text("utf-8"))["model_id"]
    return folder / "voices" / f"{name}.{run['sig']}@{run['epoch']}.safetensors"


def generated(folder: Path, case: Case) -> dict[str, Any]:
    """Complete frames, the ids that the text was told as, and what became of it."""
    model = model_of(folder, case.initial, case.most)
    model.padding_bonus, model.temp = case.bonus, case.temperature
    entries = model.prepare_script([case.text], padding_between=case.between)
    asked = model.make_condition_attributes([voice_path(folder, case.voice)], case.guidance)
    lead = model.delay_steps
    with keyed_noise(case.seed, model.n_q, lead), drawn_rows() as rows, torch.inference_mode():
        found = model.generate([entries], [asked], **settings(case))
    frames = torch.cat(found.frames, -1)[0].T
    return {
        "entries": [[entry.tokens, entry.text, entry.padding] for entry in entries],
        "text": [chosen for _, chosen in found.logged_text_tokens[0]],
        "codes": frames[lead:, 1:].tolist(),
        "beyond": [row[0, 0].item() for row in rows[-2:]],
        "words": found.all_transcripts[0],
        "end": found.end_steps[0],
    }


def speaker(folder: Path) -> Any:
    """See speed.py."""
    model = model_of(folder)
    model.temp, model.padding_bonus = 0.6, 0.0
    entries = model.prepare_script([TEXT], padding_between=1)
    asked = model.make_condition_attributes([voice_path(folder, "slt")], 2.0)

    def speak(count: int) -> tuple[int, float]:
        began_s = time.perf_counter()
        found = model.generate([list(entries) for _ in range(count)], [asked] * count)
        took_s = time.perf_counter() - began_s
        return sum(end + 2 for end in found.end_steps), took_s

    return speak


def sounds(folder: Path) -> torch.Tensor:
    """Samples of the codec's codes, of a whole stream at once."""
    codec = codec_of(folder)
    ids = torch.from_numpy(codes().T[None].astype(np.int64))
    with torch.inference_mode():
        return codec.decode(ids)[0, 0]


def shapes(path: Path) -> str:
    """A digest of the names and shapes of the published sizes, with the names that files have."""
    raw = json.loads(path.read_text("utf-8"))
    sizes = {name: value for name, value in raw.items() if name not in (*_OTHER, *_PARTS)}
    found = dict[str, list[int]]()
    for name, tensor in get_moshi_lm(None, sizes, "meta").state_dict().items():
        # Files have one tensor for all sets of weights.
        parts = re.fullmatch(r"(.*)\.(in|out)_projs\.\d+\.weight", name)
        whole = name if parts is None else f"{parts[1]}.{PROJECTIONS[parts[2]]}"
        rows, *rest = tensor.shape or (1,)
        found[whole] = [rows + (found[whole][0] if parts and whole in found else 0), *rest]
    return hashlib.sha256(json.dumps(sorted(found.items())).encode()).hexdigest()


def write(checkpoints: Path, goldens: Path) -> None:
    """Run every case."""
    found: dict[str, Any]
    found = {case.name: generated(checkpoints / case.checkpoint, case) for case in CASES}
    print({name: (len(case["codes"]), case["end"]) for name, case in found.items()})
    found["shapes"] = shapes(checkpoints / PUBLISHED)
    (goldens / "kyutai_tts.json").write_text(json.dumps(found) + "\n", "utf-8")
    samples = sounds(checkpoints / "kyutai-published")
    np.savez_compressed(goldens / "kyutai_mimi.npz", samples=samples.numpy()[::4])
