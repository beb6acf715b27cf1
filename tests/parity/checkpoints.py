"""Write the checkpoints of the comparison: python -m tests.parity.checkpoints FOLDER."""

from __future__ import annotations

import sys
from pathlib import Path

from talker.models.csm.synthetic import PUBLISHED as PUBLISHED_HEADS
from talker.models.csm.synthetic import SMALL
from talker.models.csm.synthetic import write_checkpoint as write_csm
from talker.models.orpheus.synthetic import write_checkpoint as write_orpheus
from talker.models.qwen3_tts.synthetic import write_checkpoint
from talker.models.qwen3_tts.synthetic.sizes import (
    PUBLISHED_TEXT_VOCABULARY,
    codec_config,
    model_config,
)
from tests.parity.cases import CHECKPOINTS, PUBLISHED
from tests.parity.csm_cases import CHECKPOINTS as CSM
from tests.parity.orpheus_cases import CASES
from tests.parity.orpheus_cases import SEED as ORPHEUS_SEED
from tests.parity.snac_material import SEED as SNAC_SEED
from ttscommon.engine.checkpoint import dump_json
from vocoder.codecs.mimi.synthetic import add_decoder
from vocoder.codecs.snac.synthetic import write_codec


def write_csm_checkpoint(folder: Path, name: str) -> None:
    """One of csm_cases.CHECKPOINTS, codec included."""
    seed, published, ending = CSM[name]
    heads = PUBLISHED_HEADS if published else SMALL
    write_csm(folder, seed=seed, heads=heads, ending=ending)
    add_decoder(folder, seed=seed)


def main() -> None:
    """All of cases.CHECKPOINTS and others', each in a folder of its name, and configs."""
    folder = Path(sys.argv[1])
    for name, options in CHECKPOINTS.items():
        write_checkpoint(folder / name, "tiny", **options)
    for ending in {case.ending for case in CASES}:
        write_orpheus(folder / f"orpheus-{ending:g}", seed=ORPHEUS_SEED, ending=ending)
    write_codec(folder / "snac", seed=SNAC_SEED)
    for name in CSM:
        write_csm_checkpoint(folder / name, name)
    (folder / "configs").mkdir(exist_ok=True)
    for name, (size, kind) in PUBLISHED.items():
        config = model_config(size, kind, PUBLISHED_TEXT_VOCABULARY)
        dump_json(folder / "configs" / f"{name}.json", config)
    dump_json(folder / "configs" / "codec.json", codec_config("1.7b"))


if __name__ == "__main__":
    main()
