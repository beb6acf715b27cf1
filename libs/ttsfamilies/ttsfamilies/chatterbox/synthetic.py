"""Chatterbox's talkers: published names and ids, small shapes, weights drawn from a seed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from ttscommon.engine.checkpoint import dump_json
from ttsfamilies.base.s3 import TOKENS
from ttsfamilies.base.s3.references import SpeechTokens, TokenSizes
from ttsfamilies.base.s3.speaker import SpeakerSizes, SpeakerVector
from ttsfamilies.base.synthetic import SyntheticFamily
from ttsfamilies.base.synthetic.tensors import drawn, shapes_of
from ttsfamilies.base.synthetic.tokenizers import LETTERS, vocabulary, write_merges
from ttsfamilies.chatterbox.facts import END, IDS, SPEAKER, T3Sizes
from ttsfamilies.chatterbox.net import T3Net, sources
from ttsfamilies.chatterbox.voices import VoiceVector
from ttsfamilies.cosyvoice.s3_flow.synthetic import write_codec

FILE: Final = "model.safetensors"
LANGUAGES: Final = ("en", "de", "ko")
_JAMO: Final = tuple(chr(c) for c in (*range(0x1100, 0x1113), *range(0x1161, 0x1176), 0x11AB))
_TAGS: Final = ("[laugh]", "[sigh]")
_CONTROLS: Final = {"[STOP]": 0, "[UNK]": 1, "[SPACE]": 2}
_START: Final = 255
_PROMPT: Final = 5
TINY: Final = {
    "english": T3Sizes(False, 128, 2, 96, 300, IDS + 7, 600, 700),
    "multilingual": T3Sizes(False, 128, 2, 96, 720, IDS + 7, 600, 700),
    "turbo": T3Sizes(True, 128, 2, 96, 320, IDS, wholes=2100),
}
PUBLISHED: Final = {
    "english": T3Sizes(False, 1024, 30, 4096, 704, 8194, 2050, 4100),
    "multilingual": T3Sizes(False, 1024, 30, 4096, 2454, 8194, 2050, 4100),
    "turbo": T3Sizes(True, 1024, 24, 4096, 50_276, IDS, wholes=8196),
}


def write_checkpoint(
    folder: Path,
    kind: str = "english",
    sizes: T3Sizes | None = None,
    *,
    seed: int = 0,
    ending: float = 1.0,
    heard: int = 37,
) -> None:
    """Write a talker with what hears recordings, and a voice of so many tokens.

    ending: how loudly the end of speech speaks among the logits.
    """
    folder.mkdir(parents=True, exist_ok=True)
    c = sizes or TINY[kind]
    louder = {} if c.gpt else {"speech_head.weight": (END, ending)}
    tensors = dict(drawn(_shapes(c), seed, louder))
    _quieten(tensors, c)
    if c.gpt:
        tensors["speech_head.bias"][END] += 0.5 * (ending - 1)
    tensors |= _voice(seed, heard)
    save_file({n: t.contiguous() for n, t in tensors.items()}, folder / FILE, {"format": "pt"})
    if c.gpt:
        _write_bytes(folder)
    else:
        _write_graphemes(folder, kind)


def add_codec(folder: Path, kind: str = "english", *, seed: int = 0) -> None:
    """Beside the talker: what makes sound, and what it is told of the voice."""
    flow = "chatterbox_turbo" if kind == "turbo" else "chatterbox"
    with TemporaryDirectory() as apart:
        write_codec(Path(apart), flow, seed=seed)
        (made,) = Path(apart).glob("*.safetensors")
        tensors = load_file(made)
    random = np.random.Generator(np.random.PCG64([seed, 6]))
    mel = random.standard_normal((1, 2 * _PROMPT, 80)).astype(np.float32) - 4
    tensors |= load_file(folder / FILE) | {
        "gen.prompt_token": torch.from_numpy(random.integers(0, TOKENS, (1, _PROMPT))),
        "gen.prompt_feat": torch.from_numpy(mel),
        "gen.embedding": torch.from_numpy(random.standard_normal((1, 192)).astype(np.float32)),
    }
    (folder / FILE).unlink()
    save_file(tensors, folder / FILE, {"format": "pt"})


def _shapes(c: T3Sizes) -> Mapping[str, tuple[int, ...]]:
    return {**shapes_of(sources, T3Net, c), **_hearing_shapes()}


def _hearing_shapes() -> dict[str, tuple[int, ...]]:
    speaker = SpeakerSizes(planes=2, first=8, layers=(2, 1, 1), growth=4, inner=8, gate=4)
    parts: dict[str, nn.Module] = {
        "tokenizer.": SpeechTokens(TokenSizes(64, 1, 256)),
        "speaker_encoder.": SpeakerVector(speaker),
        "": VoiceVector(),
    }
    return {
        f"{prefix}{name}": tuple(tensor.shape)
        for prefix, part in parts.items()
        for name, tensor in part.state_dict().items()
    }


def _quieten(tensors: Mapping[str, Tensor], c: T3Sizes) -> None:
    """Ids that no training shows are never likely; variances are positive."""
    others = [id for id in range(TOKENS, c.speech_ids) if id != END]
    tensors["speech_head.weight"][others] = 0.0
    if c.gpt:
        tensors["speech_head.bias"][others] = -30.0
    for name, tensor in tensors.items():
        if name.endswith("running_var"):
            tensor.abs_().add_(0.5)


def _voice(seed: int, heard: int) -> dict[str, Tensor]:
    random = np.random.Generator(np.random.PCG64([seed, 5]))
    speaker = random.standard_normal((1, SPEAKER)).astype(np.float32)
    speaker /= np.linalg.norm(speaker)
    tokens = random.integers(0, TOKENS, (1, heard))
    return {
        "t3.speaker_emb": torch.from_numpy(speaker),
        "t3.cond_prompt_speech_tokens": torch.from_numpy(tokens),
    }


def _write_graphemes(folder: Path, kind: str) -> None:
    """tokenizer.json as the package reads it: letters, and some pairs of them."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    pairs = [("t", "h"), ("i", "n"), ("th", "e"), ("o", "u")]
    known = dict(_CONTROLS)
    several = kind == "multilingual"
    languages = [f"[{language}]" for language in LANGUAGES] if several else []
    names = [
        *LETTERS,
        *".,!?'\"-",
        *(a + b for a, b in pairs),
        *languages,
        *(_JAMO if several else ()),
    ]
    ids = (id for id in range(len(known), 1 << 20) if id != _START)
    known |= dict(zip(names, ids, strict=False)) | {"[START]": _START}
    known |= {f"<unused_{id}>": id for id in range(_START) if id not in known.values()}
    tokenizer = Tokenizer(models.BPE(known, pairs, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.add_special_tokens([*_CONTROLS, "[START]", *languages])
    name = "grapheme_mtl_merged_expanded_v1.json" if several else "tokenizer.json"
    dump_json(folder / name, json.loads(tokenizer.to_str()))


def _write_bytes(folder: Path) -> None:
    """The files of a GPT-2's tokenizer."""
    known = vocabulary()
    write_merges(folder, known)
    dump_json(folder / "added_tokens.json", {tag: len(known) + i for i, tag in enumerate(_TAGS)})


def write_family(folder: Path, size: str, kind: str, seed: int) -> None:
    """A folder that both stages load."""
    sizes = TINY[kind] if size == "tiny" else PUBLISHED[kind]
    write_checkpoint(folder, kind, sizes, seed=seed)
    add_codec(folder, kind, seed=seed)


FAMILY: Final = SyntheticFamily(
    write_family,
    "a talker, what hears recordings, a voice, and a codec of small sizes",
    sizes=("tiny", "published"),
    kinds=tuple(TINY),
)
