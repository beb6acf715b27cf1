"""Which processes serve published checkpoints."""

from __future__ import annotations

from pathlib import Path

import pytest

from antiphon.stack.checkpoints import Checkpoint, programs_of
from ttscommon.engine.checkpoint import CheckpointError, codec_digest


def one(name: str, codec: str) -> Checkpoint:
    return Checkpoint(name, Path("/checkpoints") / name, codec)


def test_every_checkpoint_has_a_talker_and_every_codec_a_vocoder() -> None:
    programs = programs_of([one("a", "x"), one("b", "y"), one("c", "x")])
    named = {program.name: program.environ for program in programs}
    assert named.keys() == {"talker-a", "talker-b", "talker-c", "vocoder-a", "vocoder-b"}
    assert named["talker-c"] == {
        "ANTIPHON_MODEL": "c",
        "ANTIPHON_VOICE_DIR": "/checkpoints/c",
    }
    assert named["vocoder-a"] == {
        "ANTIPHON_MODEL": "a",
        "ANTIPHON_VOICE_DIR": "/checkpoints/a",
        "ANTIPHON_ALSO": "c",
    }
    assert "ANTIPHON_ALSO" not in named["vocoder-b"]


@pytest.mark.parametrize("given", ["a", "=x", "a=", "a b=x", "default=x", "vesper=x", "a=/no/such"])
def test_what_is_no_checkpoint_is_refused(given: str) -> None:
    with pytest.raises(CheckpointError):
        Checkpoint.parse(given)


def test_codecs_are_told_apart_by_their_files(tmp_path: Path) -> None:
    for name, content in (("a", b"1"), ("b", b"1"), ("c", b"2")):
        folder = tmp_path / name / "speech_tokenizer"
        folder.mkdir(parents=True)
        (folder / "config.json").write_text("{}")
        (folder / "model.safetensors").write_bytes(content)
    assert codec_digest(tmp_path / "a") == codec_digest(tmp_path / "b")
    assert codec_digest(tmp_path / "a") != codec_digest(tmp_path / "c")
    (tmp_path / "c" / "speech_tokenizer" / "config.json").unlink()
    with pytest.raises(CheckpointError, match="cannot be read"):
        codec_digest(tmp_path / "c")
