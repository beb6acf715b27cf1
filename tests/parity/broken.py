"""Checkpoints and recordings that are broken, one table for every family.

A family adds its line to MAKERS: its synthetic checkpoint, what loads it, and one of its tensors.
"""

import json
import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from safetensors.torch import load_file, save_file

from tests.unit.ttscommon.sound.test_recordings import wav
from ttscommon.engine.checkpoint import dump_json
from ttsfamilies.base import synthetic
from ttsfamilies.codecs import load as codec
from ttsfamilies.cosyvoice.request import BACKBONE as COSY_BACKBONE
from ttsfamilies.talkers import load as talker

TENSORS: Final = "model.safetensors"


@dataclass(frozen=True)
class Maker:
    """family, kind: of `antiphon bench checkpoint`; `change` is made to what it writes. load:
    raises CheckpointError. tensor: one of its names. number: one in config.json, or in `sizes`.
    """

    family: str
    load: Callable[[str, Path], object]
    tensor: str
    number: str
    sizes: str = "config.json"
    kind: str = ""
    change: Callable[[Path], None] = lambda folder: None

    def write(self, folder: Path) -> None:
        synthetic.family(self.family).written(folder, "", self.kind, 0)
        self.change(folder)


def _chatterbox(folder: Path) -> None:
    dump_json(folder / "config.json", {"model_type": "chatterbox", "chunk_tokens": 0})


def _cosyvoice(folder: Path) -> None:
    """All that both stages read in one file, and a config.json, which neither needs."""
    tensors = [load_file(folder / f"{part}.safetensors") for part in ("llm", "flow")]
    save_file({**tensors[0], **tensors[1]}, folder / TENSORS)
    for name in ("llm.safetensors", "flow.safetensors", f"{TENSORS}.index.json"):
        (folder / name).unlink()
    dump_json(folder / "config.json", {})


_HEAD, _BOOK = "talker.codec_head.weight", "quantizer.quantizers.0.codebook"
MAKERS: Final[Mapping[str, Maker]] = {
    "Qwen3-TTS": Maker("qwen3_tts", talker, _HEAD, "tts_bos_token_id", kind="base"),
    "Qwen3-Omni": Maker("qwen3_omni", talker, _HEAD, "tts_bos_token_id"),
    "Qwen3-Omni's codec": Maker(
        "qwen3_omni", codec, "code2wav.code_embedding.weight", "code2wav_config"
    ),
    "Orpheus": Maker("orpheus", talker, "model.norm.weight", "hidden_size"),
    "Kokoro": Maker(
        "kokoro", talker, "predictor.module.duration_proj.linear_layer.weight", "hidden_dim"
    ),
    "Kokoro's codec": Maker("kokoro", codec, "decoder.module.encode.conv1.weight_g", "hidden_dim"),
    "Pocket TTS": Maker("pocket_tts", talker, "flow_lm.out_norm.weight", "default_eos_threshold"),
    "Pocket TTS, its codec": Maker("pocket_tts", codec, "flow_lm.emb_std", "default_temperature"),
    "Chatterbox": Maker(
        "chatterbox", talker, "cond_enc.spkr_enc.weight", "chunk_tokens", change=_chatterbox
    ),
    "CosyVoice": Maker(
        *("cosyvoice", talker, "llm_decoder.bias", "hidden_size", f"{COSY_BACKBONE}/config.json"),
        change=_cosyvoice,
    ),
    "Kyutai TTS": Maker("kyutai_tts", talker, "text_linear.weight", "dim"),
    "CSM": Maker("csm", talker, "lm_head.weight", "hidden_size"),
    "CSM, its codec": Maker("csm", codec, "codec_model.upsample.conv.weight", "codec_config"),
    "Fish Audio S2": Maker(
        "fish_s2", talker, "audio_decoder.norm.weight", "semantic_start_token_id"
    ),
    "GLM-4-Voice": Maker("glm_voice", talker, "transformer.output_layer.weight", "hidden_size"),
    "Higgs Audio": Maker("higgs_audio", talker, "audio_lm_head.weight", "hidden_size"),
    "Higgs Audio's codec": Maker(
        "higgs_audio", codec, f"{_BOOK}.embed", "codebook_dim", kind="codec"
    ),
    "SNAC": Maker("snac", codec, f"{_BOOK}.weight", "sampling_rate"),
    "Step-Audio 2": Maker("step_audio2", talker, "adapter.linear1.weight", "text_config"),
    "Tacotron 2": Maker(
        *("tacotron2", talker, "decoder.gate_layer.linear_layer.weight"),
        "upsample_initial_channel",
    ),
    "Tacotron 2, its codec": Maker("tacotron2", codec, "conv_pre.bias", "hop_size"),
    "VoxCPM2": Maker("voxcpm2", talker, "stop_head.weight", "feat_dim"),
    "Zonos": Maker("zonos", talker, "heads.0.weight", "eos_token_id"),
    "DAC": Maker("dac", codec, f"{_BOOK}.weight", "sampling_rate"),
}


def _missing(folder: Path, maker: Maker) -> None:
    (folder / TENSORS).unlink()


def _truncated(folder: Path, maker: Maker) -> None:
    data = (folder / TENSORS).read_bytes()
    (folder / TENSORS).unlink()
    (folder / TENSORS).write_bytes(data[: len(data) // 2])


def _rewritten(change: Callable[[dict[str, Any], str], object]) -> Callable[[Path, Maker], None]:
    def rewritten(folder: Path, maker: Maker) -> None:
        tensors = load_file(folder / TENSORS)
        change(tensors, maker.tensor)
        (folder / TENSORS).unlink()
        save_file(tensors, folder / TENSORS)

    return rewritten


def _misshaped(tensors: dict[str, Any], name: str) -> None:
    tensors[name] = tensors[name][1:].clone()


def _not_finite(tensors: dict[str, Any], name: str) -> None:
    tensors[name].view(-1)[0] = float("nan")


def _mistyped(folder: Path, maker: Maker) -> None:
    path = folder / maker.sizes
    content = json.loads(path.read_text("utf-8")) | {maker.number: "many"}
    path.unlink()
    path.write_text(json.dumps(content), "utf-8")


def _foreign(folder: Path, maker: Maker) -> None:
    (folder / "config.json").unlink()
    (folder / "config.json").write_text('{"model_type": "bert"}', "utf-8")


def _pickled(folder: Path, maker: Maker) -> None:
    _missing(folder, maker)
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps({}))


# What is done to a checkpoint, and what its refusal says.
BREAKAGES: Final[Mapping[str, tuple[Callable[[Path, Maker], None], str]]] = {
    "missing": (_missing, "has neither model.safetensors nor"),
    "truncated": (_truncated, "truncated or damaged"),
    "a tensor left out": (_rewritten(lambda tensors, name: tensors.pop(name)), "lacks"),
    "mis-shaped": (_rewritten(_misshaped), "but config.json"),
    "not finite": (_rewritten(_not_finite), "no finite numbers"),
    "mistyped": (_mistyped, "is not as expected"),
    "foreign": (_foreign, "known"),
    "pickled": (_pickled, "antiphon convert"),
}


def lying(field: bytes, behind: int, value: int) -> bytes:
    """A header in which the number so far behind `field` is another."""
    data = bytearray(wav(2.0))
    at = data.index(field) + behind
    data[at : at + 4] = value.to_bytes(4, "little")
    return bytes(data)


# Families of MAKERS that make voices of recordings, of any rate: CosyVoice refuses 8 kHz.
CLONING: Final = ("Qwen3-TTS", "CSM", "Pocket TTS", "Zonos", "VoxCPM2")

# What is said of each; nothing where it can be used.
RECORDINGS: Final[Mapping[str, tuple[Callable[[], bytes], str]]] = {
    "empty": (lambda: b"", "is empty"),
    "ten minutes": (lambda: wav(600.0)[: 9 << 20], "longer than 30 s|is damaged|over 10 MB"),
    "8 kHz stereo": (partial(wav, 2.0, 8000, 2), ""),
    "no audio": (lambda: b"<html>" * 100, "is no WAV"),
    "a header that lies of its rate": (
        partial(lying, b"fmt ", 12, 4_000_000_000),
        "sample rate is|is no WAV",
    ),
    # Programs that write as they record leave any length there: what is there counts.
    "a header that lies of its length": (partial(lying, b"data", 4, 4_000_000_000), ""),
}
