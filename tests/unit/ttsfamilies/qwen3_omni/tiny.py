"""A checkpoint small enough for the engine's conformance tests."""

from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from ttsfamilies.qwen3_omni.config import DEFAULTS, OmniConfig
from ttsfamilies.qwen3_omni.family import OmniNet, Qwen3Omni, ThinkerTable, load_talker
from ttsfamilies.qwen3_omni.synthetic import write_checkpoint
from ttsfamilies.qwen3_tts.prompt import TurnTokenizer

MOST_FRAMES = 60
_ROWS = range(600)


@cache
def _parts(ending: float) -> tuple[OmniConfig, OmniNet, ThinkerTable, TurnTokenizer]:
    """Fewer codebooks than published, and a speaker that tests ask for."""
    with TemporaryDirectory() as folder:
        write_checkpoint(Path(folder), seed=2, codebooks=4, ending=ending)
        config, net, table = load_talker(Path(folder))
        tokenizer = TurnTokenizer.load(Path(folder))
        table.rows([i for i in _ROWS if i < table.size])  # the folder goes
    speakers = {"slt": 2301}
    talker = replace(config.talker_config, speaker_id=speakers)
    config = replace(config, talker_config=talker)
    net.config = config.as_talker()
    return config, net, table, tokenizer


def tiny(ending: float = 3.0) -> Qwen3Omni:
    """Speech ends by itself or after MOST_FRAMES. ending: how loudly the end speaks."""
    torch.set_num_threads(1)
    config, net, table, tokenizer = _parts(ending)
    defaults = replace(DEFAULTS, max_new_tokens=MOST_FRAMES + 1)
    return Qwen3Omni("m", config, net, table, tokenizer, defaults)
