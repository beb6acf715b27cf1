"""Synthetic repositories with the files that authors publish, by family: for a stand-in hub."""

import io
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

import msgspec
import torch
from safetensors.torch import load_file, save

from tests.unit.ttsfamilies.higgs_audio.test_authors import as_authors, rewrite
from ttsfamilies.base.synthetic import family
from ttsfamilies.cosyvoice.facts import HIFT

Files = dict[str, bytes]
SEED: Final = 3


class Published(NamedTuple):
    """given: what `--model NAME=` is told. repositories: files by name, by repository. family: of
    the folder that is served. unread: files that are not downloaded.
    """

    given: str
    repositories: Mapping[str, Files]
    family: str
    unread: tuple[str, ...] = ()


def written(name: str, kind: str = "") -> Files:
    """What our own writer makes."""
    return dict(_written(name, kind))


@cache
def _written(name: str, kind: str) -> Files:
    with TemporaryDirectory() as apart:
        family(name).written(Path(apart), "", kind, SEED)
        return _read(Path(apart))


def _read(folder: Path) -> Files:
    paths = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(paths)}


def tensors(data: bytes) -> dict[str, torch.Tensor]:
    with TemporaryDirectory() as apart:
        (Path(apart) / "x").write_bytes(data)
        return {name: tensor.clone() for name, tensor in load_file(Path(apart) / "x").items()}


def pickled(content: Any) -> bytes:
    file = io.BytesIO()
    torch.save(content, file)
    return file.getvalue()


def parted(data: bytes, *prefixes: tuple[str, ...]) -> list[dict[str, torch.Tensor]]:
    """Tensors whose names begin with one of each, and then the rest."""
    left = tensors(data)
    found = []
    for begins in prefixes:
        found.append({name: one for name, one in left.items() if name.startswith(begins)})
        left = {name: one for name, one in left.items() if not name.startswith(begins)}
    return [*found, left]


def flow_and_hift(data: bytes) -> Files:
    hift, flow = parted(data, HIFT)
    return {"flow.pt": pickled(flow), "hift.pt": pickled(hift)}


def single(name: str, repository: str, files: Files, unread: Files) -> Published:
    """All files in one repository, by whose name it is given."""
    return Published(repository, {repository: files | unread}, name, tuple(unread))


NOISE: Final = {"README.md": b"# A model", ".gitattributes": b"*", "samples/a.wav": b"RIFF"}


def kokoro() -> Published:
    files = written("kokoro")
    networks: dict[str, dict[str, torch.Tensor]] = {}
    for name, tensor in tensors(files.pop("model.safetensors")).items():
        network, _, inner = name.partition(".")
        networks.setdefault(network, {})[inner] = tensor
    packs = tensors(files.pop("voices.safetensors"))
    files |= {f"voices/{name}.pt": pickled(pack) for name, pack in packs.items()}
    files |= {"kokoro-v1_0.pth": pickled(networks), "eval/x.png": b"png"}
    return single("kokoro", "hexgrad/Kokoro-82M", files, NOISE)


def piper() -> Published:
    files = written("piper")
    repo = "rhasspy/piper-voices"
    found = {}
    for voice in ("en_US-lessac-medium", "en_US-joe-medium"):
        place = f"en/en_US/{voice.split('-')[1]}/medium"
        for ending in ("onnx", "onnx.json"):
            found[f"{place}/{voice}.{ending}"] = files[f"voice.{ending}"]
        found[f"{place}/MODEL_CARD"] = b"card"
    unread = tuple(name for name in found if "joe" in name or "CARD" in name)
    return Published(f"{repo}/en/en_US/lessac/medium", {repo: found}, "piper", unread)


def orpheus() -> Published:
    codec = written("snac")
    codec["pytorch_model.bin"] = pickled(tensors(codec.pop("model.safetensors")))
    talker = written("orpheus") | {"optimizer.pt": b"pickle", **NOISE}
    repos = {"canopylabs/orpheus-3b-0.1-ft": talker, "hubertsiuzdak/snac_24khz": codec}
    return Published("canopylabs/orpheus-3b-0.1-ft", repos, "orpheus", ("optimizer.pt",))


def csm() -> Published:
    files = written("csm")
    files["transformers.safetensors"] = files.pop("model.safetensors")
    told = msgspec.json.decode(files["config.json"])
    files["config.json"] = msgspec.json.encode(
        told | {"transformers_weights": "transformers.safetensors"}
    )
    unread = {"model.safetensors": b"the authors' own form", "ckpt.pt": b"pickle"}
    return single("csm", "sesame/csm-1b", files, unread)


def qwen3_tts() -> Published:
    name = "Qwen/Qwen3-TTS-12Hz-0.6B-CustomVoice"
    return single("qwen3_tts", name, written("qwen3_tts"), NOISE)


def pocket_tts() -> Published:
    repo = "kyutai/pocket-tts-without-voice-cloning"
    inside = {f"languages/english/{name}": data for name, data in written("pocket_tts").items()}
    other = {"languages/german/model.safetensors": b"weights"}
    given = f"{repo}/languages/english"
    return Published(given, {repo: inside | other}, "pocket_tts", tuple(other))


def zonos() -> Published:
    files = written("zonos")
    talker = {name: files[name] for name in ("config.json", "model.safetensors")}
    base, lda = (
        pickled(tensors(files[f"{part}/model.safetensors"])) for part in ("speaker", "lda")
    )
    speaker = {
        "ResNet293_SimAM_ASP_base.pt": base,
        "ResNet293_SimAM_ASP_base_LDA-128.pt": lda,
    }
    dac = {name: files[f"dac/{name}"] for name in ("config.json", "model.safetensors")}
    repos = {
        "Zyphra/Zonos-v0.1-transformer": talker,
        "Zyphra/Zonos-v0.1-speaker-embedding": speaker,
        "descript/dac_44khz": dac,
    }
    return Published("Zyphra/Zonos-v0.1-transformer", repos, "zonos")


def cosyvoice() -> Published:
    files = written("cosyvoice")
    del files["model.safetensors.index.json"]
    files["llm.pt"] = pickled(tensors(files.pop("llm.safetensors")))
    files |= flow_and_hift(files.pop("flow.safetensors"))
    unread = {
        **dict.fromkeys(("spk2info.pt", "flow.cache.pt"), b"pickle"),
        "flow.decoder.estimator.fp32.onnx": b"onnx",
        "CosyVoice-BlankEN/model.safetensors": b"a model that is not read",
    }
    files["cosyvoice2.yaml"] = b"x: 1"
    return single("cosyvoice", "FunAudioLLM/CosyVoice2-0.5B", files, unread)


def chatterbox() -> Published:
    files = written("chatterbox")
    sound, heard, conds, talker = parted(
        files.pop("model.safetensors"),
        ("mel2wav.", "flow.", "speaker_encoder.", "tokenizer."),
        ("lstm.", "proj.", "similarity"),
        ("gen.", "t3."),
    )
    voice: dict[str, dict[str, Any]] = {"t3": {"clap_emb": None}, "gen": {}}
    for name, tensor in conds.items():
        part, _, inner = name.partition(".")
        voice[part][inner] = tensor
    files |= {
        "t3_cfg.safetensors": save(talker),
        "ve.safetensors": save(heard),
        "s3gen.safetensors": save(sound),
        "conds.pt": pickled(voice),
    }
    unread = dict.fromkeys(("t3_cfg.pt", "ve.pt", "s3gen.pt"), b"pickle")
    unread["t3_mtl23ls_v2.safetensors"] = b"another talker"
    return single("chatterbox", "ResembleAI/chatterbox", files, unread)


def kyutai_tts() -> Published:
    files = written("kyutai_tts")
    told = msgspec.json.decode(files["config.json"])
    told["model_id"] = {"sig": "1e68beda", "epoch": 240}
    files["config.json"] = msgspec.json.encode(told)
    (voice,) = [files.pop(name) for name in list(files) if name.startswith("voices/")]
    happy = "expresso/ex03-ex01_happy_001_channel1_334s.wav.1e68beda@240.safetensors"
    others = {"vctk/p225.wav.1e68beda@240.safetensors": voice, "expresso/a.wav": b"RIFF"}
    repos = {"kyutai/tts-1.6b-en_fr": files, "kyutai/tts-voices": {happy: voice, **others}}
    return Published("kyutai/tts-1.6b-en_fr", repos, "kyutai_tts", tuple(others))


def voxcpm2() -> Published:
    files = written("voxcpm2")
    vae = {"state_dict": tensors(files.pop("audiovae.safetensors"))}
    files["audiovae.pth"] = pickled(vae)
    return single("voxcpm2", "openbmb/VoxCPM2", files, {"tokenization_voxcpm2.py": b"!"})


def tacotron2() -> Published:
    files = written("tacotron2")
    generator, talker = parted(
        files.pop("model.safetensors"), ("resblocks.", "ups.", "conv_p", "conv_post")
    )
    files |= {
        "tacotron2_statedict.pt": pickled({"state_dict": talker}),
        "generator_v1": pickled({"generator": generator}),
        "config_v1.json": files.pop("config.json"),
    }
    return single("tacotron2", "org/lj", files, {})


def fish_s2() -> Published:
    files = written("fish_s2")
    files["codec.pth"] = pickled(tensors(files.pop("codec.safetensors")))
    return single("fish_s2", "fishaudio/s2-pro", files, {})


def glm_voice() -> Published:
    files = written("glm_voice")
    inside = "glm-4-voice-tokenizer/"
    hears = {n.removeprefix(inside): files.pop(n) for n in list(files) if n.startswith(inside)}
    decoder = flow_and_hift(files.pop("glm-4-voice-decoder/model.safetensors"))
    repos = {
        "THUDM/glm-4-voice-9b": files | {"modeling_chatglm.py": b"!"},
        "THUDM/glm-4-voice-tokenizer": hears,
        "THUDM/glm-4-voice-decoder": decoder | {"config.yaml": b"x: 1"},
    }
    return Published("THUDM/glm-4-voice-9b", repos, "glm_voice", ("modeling_chatglm.py",))


def step_audio2() -> Published:
    files = written("step_audio2")
    del files["token2wav/model.safetensors.index.json"]
    sound = flow_and_hift(files.pop("token2wav/flow.safetensors"))
    files |= {f"token2wav/{name}": data for name, data in sound.items()}
    unread = {"assets/a.png": b"png", "token2wav/flow.yaml": b"x: 1"}
    return single("step_audio2", "stepfun-ai/Step-Audio-2-mini", files, unread)


def qwen3_omni() -> Published:
    return single("qwen3_omni", "Qwen/Qwen3-Omni-30B-A3B-Instruct", written("qwen3_omni"), {})


def higgs_audio() -> Published:
    """By the authors' names; the small codec has sizes that only the other form can say."""
    with TemporaryDirectory() as apart:
        talker, codec = Path(apart) / "talker", Path(apart) / "codec"
        family("higgs_audio").written(talker, "", "", SEED)
        family("higgs_audio").written(codec, "", "codec", SEED)
        as_authors(talker)
        rewrite(codec)
        files = _read(codec)
        repos = {"bosonai/higgs-audio-v2-generation-3B-base": _read(talker)}
    files["model.pth"] = pickled(tensors(files.pop("model.safetensors")))
    repos["bosonai/higgs-audio-v2-tokenizer"] = files
    return Published("bosonai/higgs-audio-v2-generation-3B-base", repos, "higgs_audio")


ALL: Final[Mapping[str, Callable[[], Published]]] = {
    builder.__name__: builder
    for builder in (
        *(kokoro, piper, orpheus, csm, qwen3_tts, pocket_tts, zonos, cosyvoice, chatterbox),
        *(kyutai_tts, voxcpm2, tacotron2, fish_s2, glm_voice, step_audio2, qwen3_omni),
        higgs_audio,
    )
}
