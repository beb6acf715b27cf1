from __future__ import annotations

from pathlib import Path

import pytest

from gateway.requests.aliases import OPENAI_VOICES, Aliases, AliasesError
from ttscommon.wire.replicas import Voice

VOICES = tuple(Voice(name, name, "en") for name in ("slt", "rms", "alloy"))


def test_the_deployments_own_names_come_first() -> None:
    aliases = Aliases(voices={"slt": "rms", "alloy": "rms"}, models={"vesper": "other"})
    assert aliases.voice("alloy", VOICES) == "alloy"
    assert aliases.model("vesper", {"vesper"}) == "vesper"


@pytest.mark.parametrize("name", ["tts-1", "tts-1-hd", "gpt-4o-mini-tts", "gpt-4o-mini-tts-2027"])
def test_openais_models_mean_the_default(name: str) -> None:
    assert Aliases().model(name, {"vesper"}) == "default"


def test_every_voice_of_openai_is_one_of_ours() -> None:
    found = {Aliases().voice(name, VOICES[:2]) for name in OPENAI_VOICES}
    assert found == {"slt", "rms"}


def test_a_name_that_means_nothing_stays_itself_unless_lenient() -> None:
    aliases = Aliases()
    assert (aliases.model("hal", ()), aliases.voice("hal", VOICES)) == ("hal", "hal")
    assert aliases.model("hal", (), lenient=True) == "default"
    assert aliases.voice("hal", VOICES, lenient=True) == "default"


def test_a_file_adds_and_overrides(tmp_path: Path) -> None:
    file = tmp_path / "aliases.toml"
    file.write_text('[models]\n"tts-1" = "other"\n"eleven_*" = "vesper"\n[voices]\nash = "rms"\n')
    aliases = Aliases.load(file)
    assert aliases.model("tts-1", ()) == "other"
    assert aliases.model("eleven_flash", ()) == "vesper"
    assert aliases.model("tts-1-hd", ()) == "default"
    assert aliases.voice("ash", VOICES) == "rms"


@pytest.mark.parametrize("text", ["[voices", "[voice]\na = 'b'", "[voices]\na = 3"])
def test_a_file_that_cannot_be_used_says_why(tmp_path: Path, text: str) -> None:
    file = tmp_path / "aliases.toml"
    file.write_text(text)
    with pytest.raises(AliasesError, match=r"aliases\.toml"):
        Aliases.load(file)
