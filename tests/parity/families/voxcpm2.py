"""VoxCPM2 beside OpenBMB's own package, `voxcpm`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Final

import numpy as np
from msgspec.structs import replace
from safetensors import safe_open
from safetensors.numpy import save_file

from tests.parity.material import arrays, wav
from tests.parity.subject import SOUND, Subject, asked, golden_normals
from tests.parity.voxcpm_cases import (
    ADAPTED,
    ALPHA,
    CASES,
    CHECKPOINTS,
    RANK,
    RATE,
    SEED,
    SPEED_FRAMES,
    TEXT,
    Case,
    halves,
    recording,
)
from tests.parity.voxcpm_cases import noise as drawn
from ttscommon.engine.checkpoint import dump_json
from ttscommon.wire.fields import Arrays, Derived
from ttscommon.wire.messages import Sampling, SpeechRequest
from ttsfamilies.base.runners.model import TalkerModel
from ttsfamilies.voxcpm2 import synthetic as voxcpm2
from ttsfamilies.voxcpm2.family import load


def write_adapter(folder: Path, checkpoint: Path) -> None:
    """An adapter of a checkpoint, as the package's training writes it."""
    folder.mkdir(parents=True, exist_ok=True)
    pairs = {}
    with safe_open(checkpoint / "model.safetensors", "np") as file:
        for name in ADAPTED:
            rows, columns = file.get_slice(f"{name}.weight").get_shape()
            pairs[f"{name}.lora_A"] = halves(f"{name}.lora_A", (RANK, columns))
            pairs[f"{name}.lora_B"] = halves(f"{name}.lora_B", (rows, RANK))
    save_file(pairs, folder / "lora_weights.safetensors")
    told = {"enable_lm": True, "enable_dit": True, "enable_proj": True, "r": RANK, "alpha": ALPHA}
    dump_json(folder / "lora_config.json", {"base_model": "voxcpm", "lora_config": told})


class VoxcpmSubject(Subject[Case]):
    """See Subject. The reference computes in float64; patches are fed back as floats, so that
    rounding grows with each frame.
    """

    cases = CASES
    speed = SpeechRequest("r", "m", "", TEXT, sampling=Sampling(max_new_tokens=SPEED_FRAMES))
    environment = "voxcpm2"
    published_heads: ClassVar = {"base": (16, 2, 128), "residual": (16, 2, 128)}
    loads = staticmethod(load)
    noise = golden_normals(drawn)
    atol = 1e-3

    def write(self, folder: Path, checkpoint: str) -> None:
        """One of voxcpm_cases.CHECKPOINTS, codec included."""
        asked = dict(CHECKPOINTS[checkpoint])
        going, long = asked.pop("going", 1.5), asked.pop("long", True)
        told = voxcpm2.config(**asked)
        if not long:
            told["lm_config"]["max_position_embeddings"] = told["max_length"]
        voxcpm2.write_checkpoint(folder, told, seed=SEED, going=going)

    def write_all(self, folder: Path) -> None:
        for checkpoint in CHECKPOINTS:
            self.write(folder / checkpoint, checkpoint)
        write_adapter(folder / "voxcpm-adapter", folder / "voxcpm")

    def request(self, case: Case) -> SpeechRequest:
        return asked(
            case,
            instructions=case.designed,
            reference=replace(SOUND, text=case.said) if case.seconds else None,
            sampling=Sampling(temperature=case.noise, max_new_tokens=case.frames),
            extra_params={"cfg_value": case.guidance},
        )

    def derived(self, model: TalkerModel, case: Case) -> Derived:
        return Derived(model.derive(wav(recording(case), RATE)) if case.seconds else None)

    def recorded(self, case: Case) -> Mapping[str, Any]:
        name = "prompt" if case.said else "reference"
        return {name: arrays("voxcpm2")[f"{case.name}/heard"]} if case.seconds else {}

    def wanted(self, case: Case) -> Arrays:
        patches = arrays("voxcpm2")[f"{case.name}/patches"].astype(np.float32)
        return {
            "patch": patches,
            "last": arrays("voxcpm2")[f"{case.name}/stops"],
            "passage": np.zeros(len(patches), np.int32),
        }


FAMILY: Final = VoxcpmSubject()
