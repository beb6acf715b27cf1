"""Write the checkpoints of the comparison: python -m tests.parity.checkpoints FOLDER [FAMILY ...].

A family adds what writes its synthetic checkpoints, and its line.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Final

import torch

from antiphon_bench.synthetic import pocket_tts
from antiphon_bench.synthetic.csm import PUBLISHED as CSM_HEADS
from antiphon_bench.synthetic.csm import SMALL
from antiphon_bench.synthetic.csm import write_checkpoint as write_csm
from antiphon_bench.synthetic.mimi import add_decoder
from antiphon_bench.synthetic.orpheus import PUBLISHED_HEADS
from antiphon_bench.synthetic.orpheus import write_checkpoint as write_orpheus
from antiphon_bench.synthetic.qwen3_tts import write_checkpoint
from antiphon_bench.synthetic.qwen3_tts.sizes import (
    PUBLISHED_TEXT_VOCABULARY,
    codec_config,
    model_config,
)
from antiphon_bench.synthetic.snac import write_codec
from tests.parity.cases import CHECKPOINTS, PUBLISHED
from tests.parity.csm_cases import CHECKPOINTS as CSM
from tests.parity.orpheus_cases import CASES
from tests.parity.orpheus_cases import SEED as ORPHEUS_SEED
from tests.parity.pocket_cases import CHECKPOINTS as POCKET
from tests.parity.pocket_cases import SEED as POCKET_SEED
from tests.parity.snac_material import SEED as SNAC_SEED
from ttscommon.engine.checkpoint import dump_json


def _qwen3_tts(folder: Path) -> None:
    for name, options in CHECKPOINTS.items():
        write_checkpoint(folder / name, "tiny", **options)
    (folder / "configs").mkdir(parents=True, exist_ok=True)
    for name, (size, kind) in PUBLISHED.items():
        config = model_config(size, kind, PUBLISHED_TEXT_VOCABULARY)
        dump_json(folder / "configs" / f"{name}.json", config)
    dump_json(folder / "configs" / "codec.json", codec_config("1.7b"))


def _orpheus(folder: Path) -> None:
    for case in {case.folder: case for case in CASES}.values():
        heads = PUBLISHED_HEADS if case.published_heads else {}
        write_orpheus(folder / case.folder, seed=ORPHEUS_SEED, ending=case.ending, heads=heads)


def _snac(folder: Path) -> None:
    write_codec(folder / "snac", seed=SNAC_SEED)


def write_csm_checkpoint(folder: Path, name: str) -> None:
    """One of csm_cases.CHECKPOINTS, codec included."""
    seed, published, ending = CSM[name]
    write_csm(folder, seed=seed, heads=CSM_HEADS if published else SMALL, ending=ending)
    add_decoder(folder, seed=seed)


def _csm(folder: Path) -> None:
    for name in CSM:
        write_csm_checkpoint(folder / name, name)


def write_pocket_checkpoint(folder: Path, name: str) -> None:
    """One of pocket_cases.CHECKPOINTS."""
    told = dict(POCKET[name])
    dtype = getattr(torch, told.pop("dtype", "float32"))
    changes: dict[str, Any] = {}
    if told.pop("small_decoder", False):
        changes = {"mimi": pocket_tts.small_decoder()}
    if not told.pop("begins", True):
        changes = {"flow_lm": {"insert_bos_before_voice": False}, "mimi": {"inner_dim": None}}
    if lm := told.get("flow_lm"):
        table = {**lm["lookup_table"], "n_bins": len(pocket_tts.pieces())}
        told["flow_lm"] = {**lm, "lookup_table": table}
    config = pocket_tts.tiny(**told, **changes)
    pocket_tts.write_checkpoint(folder, config, seed=POCKET_SEED, ending=-4.4, dtype=dtype)


def _pocket_tts(folder: Path) -> None:
    for name in POCKET:
        write_pocket_checkpoint(folder / name, name)


FAMILIES: Final = {
    "qwen3_tts": _qwen3_tts,
    "orpheus": _orpheus,
    "snac": _snac,
    "csm": _csm,
    "pocket_tts": _pocket_tts,
}


def main() -> None:
    """All families, or those that are named."""
    for family in sys.argv[2:] or FAMILIES:
        FAMILIES[family](Path(sys.argv[1]))


if __name__ == "__main__":
    main()
