"""Higgs Audio by its authors' own names: the same networks as from transformers' form."""

import json
import re
from pathlib import Path
from typing import Final

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from ttsfamilies.higgs_audio.codec import load_decoder
from ttsfamilies.higgs_audio.encoder import load_encoder
from ttsfamilies.higgs_audio.net import load_net
from ttsfamilies.higgs_audio.sizes import HiggsCodecSizes, load_sizes
from ttsfamilies.higgs_audio.synthetic import write_checkpoint, write_codec
from ttsfamilies.known import FAMILIES

FILE: Final = "model.safetensors"
_UNIT: Final = {"snake1": 0, "conv1": 1, "snake2": 2, "conv2": 3}
_ENDS: Final = {"conv1": 0, "snake1": 6, "conv2": 7}


def theirs(name: str) -> str:
    """A name of transformers' as the authors have it."""
    if found := re.match(r"acoustic_(en|de)coder\.(.*)", name):
        return _dac(found[1] == "en", found[2])
    for old, new in (
        ("model.embed_audio_tokens.embed_audio_tokens.", "audio_codebook_embeddings."),
        ("model.", ""),
        ("audio_lm_head.", "audio_decoder_proj.audio_lm_head."),
        ("quantizer.quantizers.", "quantizer.vq.layers."),
        ("fc.", "fc_prior."),
        ("fc1.", "fc_post1."),
        ("fc2.", "fc_post2."),
    ):
        if name.startswith(old):
            name = new + name.removeprefix(old)
            break
    name = name.replace(".codebook.", "._codebook.")
    if name.startswith("encoder_semantic."):
        name = re.sub(r"\.(conv[12]?)\.", r".\1.conv.", name)
    return name


def _dac(encoder: bool, name: str) -> str:
    begin = "encoder.block" if encoder else "decoder_2.model"
    parts = name.split(".")
    if parts[0] != "block":
        return ".".join([begin, str(_ENDS[parts[0]]), *parts[1:]])
    block = f"{begin}.{int(parts[1]) + 1}.block"
    if unit := re.fullmatch(r"res_unit(\d)", parts[2]):
        at = int(unit[1]) + (-1 if encoder else 1)
        return ".".join([block, str(at), "block", str(_UNIT[parts[3]]), *parts[4:]])
    inner = {"snake1": 3, "conv1": 4} if encoder else {"snake1": 0, "conv_t1": 1}
    return ".".join([block, str(inner[parts[2]]), *parts[3:]])


def rewrite(folder: Path) -> None:
    """The folder's tensors as the authors have them: other names, convolutions weight-normed."""
    found: dict[str, Tensor] = {"audio_codebook_weights": torch.ones(3)}
    for name, tensor in load_file(folder / FILE).items():
        told = theirs(name)
        if name.startswith("acoustic_") and name.endswith(".weight"):
            stem = told.removesuffix(".weight")
            found[f"{stem}.weight_v"] = 3 * tensor
            found[f"{stem}.weight_g"] = tensor.norm(dim=(1, 2), keepdim=True)
        else:
            found[told] = tensor
    if "fc_prior.weight" in found:
        found["fc1.weight"] = torch.ones(2, 2)  # which nothing reads
    (folder / FILE).unlink()
    save_file(found, folder / FILE, {"format": "pt"})


def as_authors(folder: Path) -> None:
    """A talker's folder, config.json too."""
    told = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(
        json.dumps(
            {
                "model_type": "higgs_audio",
                "text_config": told | {"model_type": "llama"},
                "audio_adapter_type": "dual_ffn_fast_forward",
                "audio_dual_ffn_layers": list(range(told["num_hidden_layers"])),
                "audio_num_codebooks": told["num_codebooks"],
                "audio_codebook_size": told["codebook_size"] - 2,
                "audio_stream_bos_id": told["audio_stream_bos_id"],
                "audio_stream_eos_id": told["audio_stream_eos_id"],
            }
        )
    )
    rewrite(folder)


def alike(one: nn.Module, other: nn.Module) -> bool:
    a, b = one.state_dict(), other.state_dict()
    return a.keys() == b.keys() and all(torch.allclose(a[n], b[n], atol=1e-6) for n in a)


def test_a_talker_is_the_same_network(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, seed=3)
    expected = load_net(tmp_path, "cpu", "float32")
    as_authors(tmp_path)
    assert FAMILIES.of(tmp_path).name == "higgs_audio"
    assert alike(load_net(tmp_path, "cpu", "float32"), expected)


def test_a_codec_is_the_same_networks(tmp_path: Path) -> None:
    write_codec(tmp_path, seed=2)
    expected = load_decoder(tmp_path), load_encoder(tmp_path)
    rewrite(tmp_path)
    found = load_decoder(tmp_path), load_encoder(tmp_path)
    assert all(map(alike, found, expected))


def test_the_authors_sizes_are_those_of_the_published_codec(tmp_path: Path) -> None:
    told = {"D": 256, "ratios": [8, 5, 4, 2, 3], "sample_rate": 24_000, "bins": 1024, "n_q": 8}
    told |= {"target_bandwidths": [0.5, 1, 1.5, 2], "codebook_dim": 64}
    (tmp_path / "config.json").write_text(json.dumps(told))
    assert load_sizes(tmp_path) == (HiggsCodecSizes(), "")
    assert FAMILIES.codec_of(tmp_path)[0].name == "higgs_audio"
