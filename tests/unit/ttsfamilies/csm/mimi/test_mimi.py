"""Where a Mimi is found, and which are refused."""

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.unit.ttsfamilies.csm.mimi.tiny import net
from ttscommon.engine.checkpoint import CheckpointError, dump_json
from ttsfamilies.codecs import load
from ttsfamilies.csm.mimi.net import context_frames, load_decoder, load_sizes
from ttsfamilies.csm.mimi.synthetic import TINY, add_decoder
from ttsfamilies.known import FAMILIES


def folder_of(path: Path, **changes: Any) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    dump_json(path / "config.json", TINY | changes)
    return path


def test_within_a_talkers_checkpoint_or_by_itself_it_is_the_same_codec(tmp_path: Path) -> None:
    alone, talker = folder_of(tmp_path / "alone"), tmp_path / "talker"
    add_decoder(alone, seed=2)
    talker.mkdir()
    dump_json(talker / "config.json", {"model_type": "csm", "codec_config": TINY})
    held = {f"codec_model.{name}": t for name, t in load_file(alone / "model.safetensors").items()}
    save_file({**held, "lm_head.weight": torch.zeros(1)}, talker / "model.safetensors")
    for folder in (alone, talker):
        assert FAMILIES.codec_of(folder)[0].name == "mimi"
        found = load_decoder(folder).state_dict()
        assert all(torch.equal(found[key], tensor) for key, tensor in net().state_dict().items())
    assert load("m", talker).spec.family == "mimi"


def test_the_published_sizes_reach_back_eighty_seconds(tmp_path: Path) -> None:
    dump_json(tmp_path / "config.json", {"model_type": "mimi"})
    sizes, _ = load_sizes(tmp_path)
    assert sizes.frame_samples == 1920
    assert 80 < context_frames(sizes) / 12.5 < 81


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"use_causal_conv": False}, "kind of Mimi"),
        ({"num_semantic_quantizers": 2}, "kind of Mimi"),
        ({"head_dim": 7}, "odd"),
        ({"sliding_window": 0}, "sliding_window is 0"),
    ],
)
def test_a_config_that_is_not_served_is_named(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(CheckpointError, match=message):
        load_sizes(folder_of(tmp_path, **changes))


@pytest.mark.parametrize("name", ["upsample.conv.weight", "decoder.layers.3.block.1.conv.bias"])
def test_a_codec_without_a_tensor_is_refused(tmp_path: Path, name: str) -> None:
    add_decoder(folder_of(tmp_path))
    tensors = load_file(tmp_path / "model.safetensors")
    del tensors[name]
    save_file(tensors, tmp_path / "model.safetensors")
    with pytest.raises(CheckpointError, match=rf"lacks {name}"):
        load_decoder(tmp_path)


def test_more_layers_than_the_config_says_are_named(tmp_path: Path) -> None:
    add_decoder(folder_of(tmp_path))
    folder_of(tmp_path, num_hidden_layers=1)
    with pytest.raises(CheckpointError, match=r"has decoder_transformer\.layers\.1"):
        load_decoder(tmp_path)
