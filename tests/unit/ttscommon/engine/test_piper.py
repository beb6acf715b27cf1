"""Voices in ONNX files: every weight found once, and broken files named."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ttscommon.engine.checkpoint import CheckpointError, codec_digest, find_checkpoint, voice_file
from ttsfamilies.base.codec.options import CodecOptions as CodecLoading
from ttsfamilies.base.talker.options import ModelOptions
from ttsfamilies.known import FAMILIES
from ttsfamilies.piper.codec import load as load_codec
from ttsfamilies.piper.family import load, ways_of
from ttsfamilies.piper.synthetic import config, network, onnx_of, write_voice
from ttsfamilies.piper.voice import PiperConfig, PiperVoice

Change = Callable[[dict[str, Any]], object]


@pytest.fixture
def voice(tmp_path: Path) -> Path:
    write_voice(tmp_path, seed=1)
    return tmp_path / "voice.onnx"


def rewritten(voice: Path, change: Change) -> None:
    """Its tensors written anew."""
    whole = network()
    names = PiperVoice(voice)
    tensors = {
        name: names.read("enc_p.emb.weight" if name == "enc_p.emb.weight" else name).numpy()
        for name in whole.state_dict()
    }
    change(tensors)
    voice.write_bytes(onnx_of(whole, tensors))


def reconfigured(voice: Path, **changes: object) -> None:
    voice.with_name("voice.onnx.json").write_text(json.dumps(config() | changes), "utf-8")


@pytest.mark.parametrize("place", [Path(), Path("voice.onnx")])
def test_a_file_and_its_folder_are_one_voice(voice: Path, place: Path) -> None:
    found = find_checkpoint(str(voice.parent / place))
    assert FAMILIES.of(found).name == "piper"
    codec, folder = FAMILIES.codec_of(found)
    assert codec.name == "piper"
    assert voice_file(folder) == voice
    assert codec_digest(found) == codec_digest(voice)


FILES: dict[str, tuple[Callable[[Path], object], str]] = {
    "truncated": (lambda v: v.write_bytes(v.read_bytes()[:-100]), "truncated or no ONNX"),
    "something else": (lambda v: v.write_bytes(b"<html>" * 200), "truncated or no ONNX"),
    "a length beyond the end": (
        lambda v: v.write_bytes(b"\x3a\xff\xff\xff\xff\x7f" + v.read_bytes()),
        "truncated or no ONNX",
    ),
    "no JSON": (lambda v: v.with_name("voice.onnx.json").write_text("{", "utf-8"), "not as"),
    "JSON missing": (lambda v: v.with_name("voice.onnx.json").unlink(), "cannot be read"),
}
SQUARE = np.zeros((2, 2), "f4")
WEIGHTS: dict[str, tuple[Change, str]] = {
    "left out": (lambda t: t.pop("enc_p.proj.bias"), "lacks enc_p.proj.bias"),
    "one too many": (lambda t: t.update({"enc_p.extra": SQUARE}), "enc_p.extra"),
    "of no known use": (lambda t: t.update(mystery=SQUARE), "mystery"),
    "mis-shaped": (lambda t: t.update({"enc_p.proj.bias": SQUARE}), r"proj.bias is \[2, 2\]"),
    "not finite": (lambda t: t["dp.proj.bias"].fill(np.nan), "no finite numbers"),
}
SETTINGS: dict[str, tuple[dict[str, Any], str]] = {
    "a table beyond the network": (
        {"phoneme_id_map": {"_": [0], "^": [1], "$": [2], "a": [64]}}, "beyond the 64",
    ),
    "another hop": ({"hop_length": 512}, "hop_length is 512"),
    "phones of a kind that is not served": ({"phoneme_type": "pinyin"}, "pinyin"),
    "speakers that there are not": ({"num_speakers": 3}, "num_speakers is not 1"),
    "a language that is no tag": ({"language": {"code": "no language"}}, "BCP 47"),
    "a rate of no sound": ({"audio": {"sample_rate": 0}}, "sample_rate"),
}  # fmt: skip
BROKEN: dict[str, tuple[Callable[[Path], object], str]] = {
    **FILES,
    **{n: (partial(rewritten, change=change), said) for n, (change, said) in WEIGHTS.items()},
    **{n: (partial(reconfigured, **told), said) for n, (told, said) in SETTINGS.items()},
}


@pytest.mark.parametrize("broken", BROKEN)
def test_a_broken_voice_is_named(broken: str, voice: Path) -> None:
    breaks, said = BROKEN[broken]
    breaks(voice)
    with pytest.raises(CheckpointError, match=said) as refused:
        load("m", voice, ModelOptions())
    assert str(voice.parent) in str(refused.value)


def test_a_broken_generator_is_named(voice: Path) -> None:
    rewritten(voice, lambda tensors: tensors.pop("dec.conv_post.weight"))
    with pytest.raises(CheckpointError, match=r"dec\.conv_post"):
        load_codec("m", voice, CodecLoading())


def test_two_voices_in_a_folder_are_told_apart_by_their_files(voice: Path) -> None:
    write_voice(voice.with_name("other.onnx"))
    with pytest.raises(CheckpointError, match=r"other\.onnx, voice\.onnx"):
        voice_file(voice.parent)


def test_speakers_are_voices_and_the_default_one_comes_first() -> None:
    told = PiperConfig(
        {}, num_speakers=2, speaker_id_map={"ann": 0, "bob": 1}, default_speaker_id=1
    )
    assert list(told.speakers().items()) == [("bob", 1), ("ann", 0)]
    assert [one.id for one in PiperConfig({}, dataset="joe").voices()] == ["joe"]


def test_a_language_that_no_installed_frontend_reads_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", "")
    german = PiperConfig({}, phoneme_type="espeak")
    object.__setattr__(german.language, "code", "de_DE")
    with pytest.raises(CheckpointError, match="espeak-ng"):
        ways_of(german, Path("voices/vesper"))
