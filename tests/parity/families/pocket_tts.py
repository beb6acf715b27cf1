"""Pocket TTS beside Kyutai's own package, `pocket-tts`."""

import math
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Final

import numpy as np
import torch

from tests.parity.material import arrays, said, wav
from tests.parity.pocket_cases import CASES, CHECKPOINTS, SEED, Case, recording
from tests.parity.pocket_cases import noise as drawn
from tests.parity.subject import SOUND, Subject, asked, golden_normals
from ttscommon.wire.fields import Arrays, Derived
from ttscommon.wire.messages import SpeechRequest
from ttsfamilies.base.runners.model import TalkerModel
from ttsfamilies.pocket_tts import synthetic as pocket_tts
from ttsfamilies.pocket_tts.family import load

# All of the golden but the arrays.
told = partial(said, "pocket_tts")


def left(of: Any, tokens: list[list[int]], after: list[int]) -> Any:
    """Frames left of each frame: of a chunk that ended before it had to, the last ones count."""
    found = np.full(len(of), -1, np.int16)
    for chunk, (ids, behind) in enumerate(zip(tokens, after, strict=True)):
        places = np.flatnonzero(of == chunk)
        if len(places) < math.ceil((len(ids) / 3 + 2) * 12.5):
            found[places[-behind:]] = np.arange(behind)[::-1]
    return found


class PocketSubject(Subject[Case]):
    """See Subject. Latents are fed back as floats, so that rounding grows with each frame."""

    cases = CASES
    environment = "pocket_tts"
    published_heads: ClassVar = {"backbone": (16, 16, 64)}
    loads = staticmethod(load)
    noise = golden_normals(drawn)
    atol = 2e-2

    def write(self, folder: Path, checkpoint: str) -> None:
        """One of pocket_cases.CHECKPOINTS, codec included."""
        asked = dict(CHECKPOINTS[checkpoint])
        dtype = getattr(torch, asked.pop("dtype", "float32"))
        changes: dict[str, Any] = {}
        if asked.pop("small_decoder", False):
            changes = {"mimi": pocket_tts.small_decoder()}
        if not asked.pop("begins", True):
            changes = {"flow_lm": {"insert_bos_before_voice": False}, "mimi": {"inner_dim": None}}
        if lm := asked.get("flow_lm"):
            table = {**lm["lookup_table"], "n_bins": len(pocket_tts.pieces())}
            asked["flow_lm"] = {**lm, "lookup_table": table}
        config = pocket_tts.tiny(**asked, **changes)
        pocket_tts.write_checkpoint(folder, config, seed=SEED, ending=-4.4, dtype=dtype)

    def request(self, case: Case) -> SpeechRequest:
        told = {} if case.after is None else {"frames_after_eos": case.after}
        if case.seconds:
            return asked(case, reference=SOUND, extra_params=told)
        return asked(case, "slt", extra_params=told)

    def derived(self, model: TalkerModel, case: Case) -> Derived:
        return Derived(model.derive(wav(recording(case))) if case.seconds else None)

    def prompts(self, case: Case, units: Sequence[Any]) -> tuple[Any, Any]:
        return [list(unit.tokens) for unit in units], told()["tokens"][case.name]

    def wanted(self, case: Case) -> Arrays:
        of = arrays("pocket_tts")[f"{case.name}/of"]
        return {
            "latent": arrays("pocket_tts")[f"{case.name}/latents"],
            "passage": of,
            "left": left(of, told()["tokens"][case.name], told()["after"][case.name]),
        }


FAMILY: Final = PocketSubject()
