"""The official package, imported without what only its 25 Hz codec needs."""

from __future__ import annotations

import contextlib
import io
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

from tests.parity.reference.bare import quiet

for _name in ("torchaudio", "torchaudio.compliance", "torchaudio.compliance.kaldi"):
    quiet(_name, __spec__=ModuleSpec(_name, None), __path__=[])

import torch  # noqa: E402

with contextlib.redirect_stdout(io.StringIO()):
    from qwen_tts import Qwen3TTSModel
    from qwen_tts.core.models import Qwen3TTSConfig, Qwen3TTSForConditionalGeneration
    from qwen_tts.core.models.modeling_qwen3_tts import mel_spectrogram
    from qwen_tts.core.tokenizer_12hz.modeling_qwen3_tts_tokenizer_v2 import (
        Qwen3TTSTokenizerV2Config,
        Qwen3TTSTokenizerV2Model,
    )

__all__ = [
    "Qwen3TTSConfig",
    "Qwen3TTSForConditionalGeneration",
    "Qwen3TTSTokenizerV2Config",
    "Qwen3TTSTokenizerV2Model",
    "load",
    "mel_spectrogram",
]


def load(folder: Path) -> Any:
    """A checkpoint in the official package, in float32 on the CPU."""
    torch.set_num_threads(1)
    return Qwen3TTSModel.from_pretrained(
        str(folder), dtype=torch.float32, attn_implementation="eager"
    )
