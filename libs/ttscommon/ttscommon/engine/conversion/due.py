"""The pickles of a folder that no safetensors file stands for, by names alone."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import PurePosixPath
from typing import Final

from ttscommon.engine.hub import PICKLES, TENSORS

# Parts of one model whose tensors' names do not meet: CosyVoice's, the decoders of GLM-4-Voice and
# of Step-Audio 2, and Tacotron 2 with HiFi-GAN.
PARTS: Final = (
    ("llm.pt", "flow.pt", "hift.pt"),
    ("flow.pt", "hift.pt"),
    ("tacotron2.pt", "generator.pt"),
)
# Of Chatterbox: beginnings of talkers' names, and the files that each of them needs.
TALKER: Final = "t3_"
BESIDE: Final = (("s3gen_meanflow", "s3gen"), ("ve",), ("conds",))
# A codec that lies beside its talker's safetensors, and keeps its name: Fish Audio's, VoxCPM2's.
CODECS: Final = ("codec", "audiovae")
_STEMS: Final = (PurePosixPath(name).stem for parts in PARTS for name in parts)
_APART: Final = frozenset((*CODECS, *(stem for stems in BESIDE for stem in stems), *_STEMS))


def due(names: Collection[str]) -> list[str]:
    """Of the files in one folder, the pickles that have to be converted before it can be served."""
    stems = {name.partition(TENSORS)[0] for name in names if TENSORS in name}
    pickles = [name for name in names if PurePosixPath(name).suffix in PICKLES]
    found = [name for name in pickles if PurePosixPath(name).stem not in stems]
    return sorted(name for name in found if not stems or PurePosixPath(name).stem in _APART)


def unordered(names: Collection[str]) -> bool:
    """Whether files are of one model and no index says so: Chatterbox's."""
    talkers = [name for name in names if name.startswith(TALKER) and name.endswith(TENSORS)]
    return bool(talkers) and not any(name.endswith(".index.json") for name in names)
