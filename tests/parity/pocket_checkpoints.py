"""The synthetic checkpoints that Pocket TTS is compared on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from antiphon_bench.synthetic import pocket_tts
from tests.parity.pocket_cases import CHECKPOINTS as POCKET
from tests.parity.pocket_cases import SEED as POCKET_SEED


def write_pocket_checkpoint(folder: Path, name: str) -> None:
    """One of pocket_cases.CHECKPOINTS."""
    told = dict(POCKET[name])
    changes: dict[str, Any] = {}
    if told.pop("small_decoder", False):
        changes = {"mimi": pocket_tts.small_decoder()}
    if not told.pop("begins", True):
        changes = {"flow_lm": {"insert_bos_before_voice": False}, "mimi": {"inner_dim": None}}
    if lm := told.get("flow_lm"):
        table = {**lm["lookup_table"], "n_bins": len(pocket_tts.pieces())}
        told["flow_lm"] = {**lm, "lookup_table": table}
    config = pocket_tts.tiny(**told, **changes)
    pocket_tts.write_checkpoint(folder, config, seed=POCKET_SEED, ending=-4.4)
