"""Checkpoints and recordings that are broken, one table for every family.

A family adds its line to MAKERS: how its synthetic checkpoint is written, what loads it, and one of
its tensors.
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
from ttsfamilies.chatterbox.synthetic import write_checkpoint as write_chatterbox
from ttsfamilies.codecs import load as load_codec
from ttsfamilies.cosyvoice.request import BACKBONE as COSY_BACKBONE
from ttsfamilies.cosyvoice.synthetic import write_family as write_cosyvoice
from ttsfamilies.csm.mimi.synthetic import add_decoder
from ttsfamilies.csm.synthetic import write_checkpoint as write_csm
from ttsfamilies.fish_s2.synthetic import write_checkpoint as write_fish
from ttsfamilies.glm_voice.synthetic import write_checkpoint as write_glm
from ttsfamilies.higgs_audio.synthetic import write_checkpoint as write_higgs
from ttsfamilies.higgs_audio.synthetic import write_codec as write_higgs_codec
from ttsfamilies.kokoro.synthetic import write_checkpoint as write_kokoro
from ttsfamilies.kyutai_tts.synthetic import config as kyutai_config
from ttsfamilies.kyutai_tts.synthetic import write_checkpoint as write_kyutai
from ttsfamilies.orpheus.synthetic import write_checkpoint as write_orpheus
from ttsfamilies.orpheus.synthetic_snac import write_codec
from ttsfamilies.pocket_tts.synthetic import write_checkpoint as write_pocket
from ttsfamilies.qwen3_omni.synthetic import write_checkpoint as write_omni
from ttsfamilies.qwen3_tts.synthetic import write_checkpoint as write_qwen3
from ttsfamilies.step_audio2.synthetic import write_checkpoint as write_step
from ttsfamilies.tacotron2.synthetic import write_checkpoint as write_tacotron2
from ttsfamilies.talkers import load as load_talker
from ttsfamilies.voxcpm2.synthetic import write_checkpoint as write_voxcpm
from ttsfamilies.zonos.synthetic import write_checkpoint as write_zonos
from ttsfamilies.zonos.synthetic_dac import write_codec as write_dac

TENSORS: Final = "model.safetensors"


@dataclass(frozen=True)
class Maker:
    """write: a whole checkpoint into a folder. load: raises CheckpointError. tensor: one of its
    names. number: a number in its config.json, or in the file `sizes`.
    """

    write: Callable[[Path], object]
    load: Callable[[str, Path], object]
    tensor: str
    number: str
    sizes: str = "config.json"


def _qwen3(folder: Path) -> None:
    write_qwen3(folder, "tiny", kind="base")


def _omni(folder: Path) -> None:
    write_omni(folder, codebooks=3)


def _csm(folder: Path) -> None:
    write_csm(folder, codebooks=3)
    add_decoder(folder)


def _fish(folder: Path) -> None:
    write_fish(folder, codebooks=2)


def _chatterbox(folder: Path) -> None:
    write_chatterbox(folder)
    dump_json(folder / "config.json", {"model_type": "chatterbox", "chunk_tokens": 0})


def _kyutai(folder: Path) -> None:
    write_kyutai(folder, kyutai_config(3, layers=1))


def _cosyvoice(folder: Path) -> None:
    """All that both stages read in one file, and a config.json, which neither needs."""
    write_cosyvoice(folder, "tiny", "v2", 0)
    tensors = [load_file(folder / f"{part}.safetensors") for part in ("llm", "flow")]
    save_file({**tensors[0], **tensors[1]}, folder / TENSORS)
    for name in ("llm.safetensors", "flow.safetensors", f"{TENSORS}.index.json"):
        (folder / name).unlink()
    dump_json(folder / "config.json", {})


MAKERS: Final[Mapping[str, Maker]] = {
    "Qwen3-TTS": Maker(_qwen3, load_talker, "talker.codec_head.weight", "tts_bos_token_id"),
    "Qwen3-Omni": Maker(_omni, load_talker, "talker.codec_head.weight", "tts_bos_token_id"),
    "Qwen3-Omni's codec": Maker(
        _omni, load_codec, "code2wav.code_embedding.weight", "code2wav_config"
    ),
    "Orpheus": Maker(write_orpheus, load_talker, "model.norm.weight", "hidden_size"),
    "Kokoro": Maker(
        write_kokoro,
        load_talker,
        "predictor.module.duration_proj.linear_layer.weight",
        "hidden_dim",
    ),
    "Kokoro's codec": Maker(
        write_kokoro, load_codec, "decoder.module.encode.conv1.weight_g", "hidden_dim"
    ),
    "Pocket TTS": Maker(
        write_pocket, load_talker, "flow_lm.out_norm.weight", "default_eos_threshold"
    ),
    "Pocket TTS, its codec": Maker(
        write_pocket, load_codec, "flow_lm.emb_std", "default_temperature"
    ),
    "Chatterbox": Maker(_chatterbox, load_talker, "cond_enc.spkr_enc.weight", "chunk_tokens"),
    "CosyVoice": Maker(
        _cosyvoice,
        load_talker,
        "llm_decoder.bias",
        "hidden_size",
        f"{COSY_BACKBONE}/config.json",
    ),
    "Kyutai TTS": Maker(_kyutai, load_talker, "text_linear.weight", "dim"),
    "CSM": Maker(_csm, load_talker, "lm_head.weight", "hidden_size"),
    "CSM, its codec": Maker(_csm, load_codec, "codec_model.upsample.conv.weight", "codec_config"),
    "Fish Audio S2": Maker(
        _fish, load_talker, "audio_decoder.norm.weight", "semantic_start_token_id"
    ),
    "GLM-4-Voice": Maker(write_glm, load_talker, "transformer.output_layer.weight", "hidden_size"),
    "Higgs Audio": Maker(write_higgs, load_talker, "audio_lm_head.weight", "hidden_size"),
    "Higgs Audio's codec": Maker(
        write_higgs_codec, load_codec, "quantizer.quantizers.0.codebook.embed", "codebook_dim"
    ),
    "SNAC": Maker(
        write_codec, load_codec, "quantizer.quantizers.0.codebook.weight", "sampling_rate"
    ),
    "Step-Audio 2": Maker(write_step, load_talker, "adapter.linear1.weight", "text_config"),
    "Tacotron 2": Maker(
        write_tacotron2,
        load_talker,
        "decoder.gate_layer.linear_layer.weight",
        "upsample_initial_channel",
    ),
    "Tacotron 2, its codec": Maker(write_tacotron2, load_codec, "conv_pre.bias", "hop_size"),
    "VoxCPM2": Maker(write_voxcpm, load_talker, "stop_head.weight", "feat_dim"),
    "Zonos": Maker(write_zonos, load_talker, "heads.0.weight", "eos_token_id"),
    "DAC": Maker(write_dac, load_codec, "quantizer.quantizers.0.codebook.weight", "sampling_rate"),
}


def _missing(folder: Path, maker: Maker) -> None:
    del maker
    (folder / TENSORS).unlink()


def _truncated(folder: Path, maker: Maker) -> None:
    del maker
    data = (folder / TENSORS).read_bytes()
    (folder / TENSORS).unlink()
    (folder / TENSORS).write_bytes(data[: len(data) // 2])


def _rewritten(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    tensors = load_file(folder / TENSORS)
    change(tensors)
    (folder / TENSORS).unlink()
    save_file(tensors, folder / TENSORS)


def _left_out(folder: Path, maker: Maker) -> None:
    _rewritten(folder, lambda tensors: tensors.pop(maker.tensor))


def _misshaped(folder: Path, maker: Maker) -> None:
    def change(tensors: dict[str, Any]) -> None:
        tensors[maker.tensor] = tensors[maker.tensor][1:].clone()

    _rewritten(folder, change)


def _not_finite(folder: Path, maker: Maker) -> None:
    def change(tensors: dict[str, Any]) -> None:
        tensors[maker.tensor].view(-1)[0] = float("nan")

    _rewritten(folder, change)


def _config(path: Path, **changes: object) -> None:
    content = json.loads(path.read_text("utf-8")) | changes
    path.unlink()
    path.write_text(json.dumps(content), "utf-8")


def _mistyped(folder: Path, maker: Maker) -> None:
    _config(folder / maker.sizes, **{maker.number: "many"})


def _foreign(folder: Path, maker: Maker) -> None:
    del maker
    (folder / "config.json").unlink()
    (folder / "config.json").write_text('{"model_type": "bert"}', "utf-8")


def _pickled(folder: Path, maker: Maker) -> None:
    _missing(folder, maker)
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps({}))


@dataclass(frozen=True)
class Breakage:
    """What is done to a checkpoint, and what its refusal says."""

    do: Callable[[Path, Maker], None]
    said: str


BREAKAGES: Final[Mapping[str, Breakage]] = {
    "missing": Breakage(_missing, "has neither model.safetensors nor"),
    "truncated": Breakage(_truncated, "truncated or damaged"),
    "a tensor left out": Breakage(_left_out, "lacks"),
    "mis-shaped": Breakage(_misshaped, "but config.json"),
    "not finite": Breakage(_not_finite, "no finite numbers"),
    "mistyped": Breakage(_mistyped, "is not as expected"),
    "foreign": Breakage(_foreign, "known"),
    "pickled": Breakage(_pickled, "antiphon convert"),
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
