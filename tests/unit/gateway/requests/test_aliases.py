from pathlib import Path

import pytest

from gateway.requests.aliases import OPENAI_VOICES, Aliases, AliasesError
from ttscommon.wire.replicas import Voice

VOICES = tuple(Voice(name, name, "en") for name in ("slt", "rms", "alloy"))


def test_the_deployments_own_names_come_first() -> None:
    aliases = Aliases(voices={"slt": "rms", "alloy": "rms"}, models={"vesper": "other"})
    assert aliases.voice("alloy", VOICES) == "alloy"
    assert aliases.model("vesper", {"vesper": "vesper"}) == "vesper"


SERVED = {"vesper": "vesper", "mine": "qwen3_tts", "k": "kokoro"}
QWEN = "Qwen/Qwen3-TTS-12Hz-1.7B-CustomVoice"


@pytest.mark.parametrize(
    ("name", "meant", "alone"),
    [
        *((name, "default", "default") for name in (
            "tts-1", "tts-1-hd", "gpt-4o-mini-tts", "gpt-4o-mini-tts-2027",
            "eleven_v3", "sonic-3.6", "aura-2-thalia-en", "eleven_flash_v2_5",
        )),
        *((name, "k", "default") for name in (
            "kokoro", "hexgrad/Kokoro-82M", "speaches-ai/Kokoro-82M-v1.0-ONNX",
        )),
        (QWEN, "mine", QWEN),
    ],
)  # fmt: skip
def test_published_names_mean_the_model_of_their_family_or_the_default(
    name: str, meant: str, alone: str
) -> None:
    assert Aliases().model(name, SERVED) == meant
    assert Aliases().model(name, {"vesper": "vesper"}) == alone


def test_voices_that_mean_nothing_are_spread_over_those_of_the_language() -> None:
    voices, aliases = (*VOICES, Voice("kerstin", "Kerstin", "de-DE")), Aliases()
    names = [f"21m00Tcm4TlvDq8ikWA{index}" for index in range(40)]
    found = [aliases.voice(name, voices, lenient=True) for name in names]
    assert set(found) == {voice.id for voice in VOICES}
    assert found == [aliases.voice(name, voices, lenient=True) for name in names]
    assert {aliases.voice(n, voices, lenient=True, language="de") for n in names} == {"kerstin"}
    assert aliases.voice("default", voices, lenient=True, language="de-AT") == "kerstin"
    assert aliases.voice("slt", voices, lenient=True, language="de") == "slt"
    assert aliases.voice("21m00", voices, lenient=True, language="fr") == "default"


def test_every_voice_of_openai_is_one_of_ours() -> None:
    found = {Aliases().voice(name, VOICES[:2]) for name in OPENAI_VOICES}
    assert found == {"slt", "rms"}


def test_a_name_that_means_nothing_stays_itself_unless_lenient() -> None:
    aliases = Aliases()
    assert (aliases.model("hal", {}), aliases.voice("hal", VOICES)) == ("hal", "hal")
    assert aliases.model("hal", {}, lenient=True) == "default"
    assert aliases.voice("hal", [], lenient=True) == "default"


def test_a_file_adds_and_overrides(tmp_path: Path) -> None:
    file = tmp_path / "aliases.toml"
    file.write_text('[models]\n"tts-1" = "other"\n"eleven_*" = "vesper"\n[voices]\nash = "rms"\n')
    aliases = Aliases.load(file)
    assert aliases.model("tts-1", {}) == "other"
    assert aliases.model("eleven_flash", {}) == "vesper"
    assert aliases.model("tts-1-hd", {}) == "default"
    assert aliases.voice("ash", VOICES) == "rms"


@pytest.mark.parametrize("text", ["[voices", "[voice]\na = 'b'", "[voices]\na = 3"])
def test_a_file_that_cannot_be_used_says_why(tmp_path: Path, text: str) -> None:
    file = tmp_path / "aliases.toml"
    file.write_text(text)
    with pytest.raises(AliasesError, match=r"aliases\.toml"):
        Aliases.load(file)


def test_kokoros_voices_mean_ones_like_them_where_a_model_has_none_of_them() -> None:
    voices = (
        Voice("amy", "Amy", "en-US", "female"), Voice("bob", "Bob", "en-GB", "male"),
        Voice("kerstin", "Kerstin", "de-DE", "female"),
    )  # fmt: skip
    meant = {name: Aliases().voice(name, voices) for name in ("af_heart", "am_adam", "bm_lewis")}
    assert meant == {"af_heart": "amy", "am_adam": "bob", "bm_lewis": "bob"}
    assert Aliases().voice("af_bella(2)+af_sky(1)", voices) == "amy"
    assert Aliases().voice("af_bella+af_sky", (Voice("af_sky", "Sky", "en"),)) == "af_bella+af_sky"
    assert Aliases().voice("of_course", voices) == "of_course"
