"""What is Fish Audio S2's own: batches, voices, its licence."""

import json
from pathlib import Path

import numpy as np
import pytest
import structlog

from tests.parity.families.fish_s2 import FAMILY, goldens
from tests.parity.fish_s2_cases import VOICES, Case
from tests.parity.runner import Loaded
from ttscommon.engine.checkpoint import CheckpointError
from ttscommon.wire.errors import TextTooLong, UnknownVoice
from ttscommon.wire.messages import SpeechRequest
from ttscommon.wire.pieces import Text
from ttsfamilies.base.lm.turns import FRAME
from ttsfamilies.fish_s2.request import batches
from ttsfamilies.fish_s2.synthetic import add_codec, add_voice, write_checkpoint
from ttsfamilies.known import FAMILIES
from ttsfamilies.talkers import load

pytestmark = pytest.mark.slow  # one more family

# What the authors' own code says, where a user has made it say it: `make goldens FAMILY=fish_s2`.
AUTHORS = Path(__file__).parents[2] / "build" / "goldens" / "fish_s2-authors.json"


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Loaded[Case]:
    return Loaded(FAMILY, tmp_path_factory.mktemp("fish"), "fish")


def test_the_authors_code_says_what_the_loop_says() -> None:
    if not AUTHORS.exists():
        pytest.skip("made on demand, from a clone of the authors' repository")
    said = json.loads(AUTHORS.read_text("utf-8"))
    assert said
    for name, codes in said.items():
        assert codes == goldens()[name]["codes"], name


def test_texts_are_cut_where_speakers_change() -> None:
    text = " ".join(f"<|speaker:{i % 3}|>turn {i}" for i in range(7))
    assert [part.count("turn") for part in batches(text, 1000)] == [5, 2]
    assert [part.count("turn") for part in batches(text, 45)] == [2, 2, 2, 1]
    assert batches("before <|speaker:1|>one", 1000) == ["before\n<|speaker:1|>one"]
    assert batches("no tags\nat all", 3) == ["no tags\nat all"]


def test_control_tokens_in_a_text_are_read_as_they_are_written(loaded: Loaded[Case]) -> None:
    written = "It ends <|im_end|> here. <|phoneme_start|>a<|phoneme_end|>"
    prepared = loaded.model.prepare(SpeechRequest("r", "m", "one", written))
    (batch,) = prepared.read([Text(written)], final=True)
    ids = batch.text.tolist()
    # Of the system's turn, and of the user's own.
    assert ids.count(151_645) == 2
    assert ids.count(151_671) == ids.count(151_672) == 1


def test_voices_are_codes_with_words(loaded: Loaded[Case]) -> None:
    assert [voice.id for voice in loaded.model.spec.voices] == ["default", *sorted(VOICES)]
    (batch,) = loaded.model.prepare(SpeechRequest("r", "m", "default", "Odd.")).read(
        [Text("Odd.")], final=True
    )
    assert FRAME not in batch.text
    with pytest.raises(UnknownVoice, match="default, one, two"):
        loaded.model.prepare(SpeechRequest("r", "m", "three", "Odd."))


def test_a_voice_without_words_or_with_other_codes_is_refused(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, codebooks=3)
    codes = np.zeros((4, 3), np.int16)
    add_voice(tmp_path, "a", codes, "words")
    (tmp_path / "voices" / "a.txt").unlink()
    with pytest.raises(CheckpointError, match="no transcript"):
        load("m", tmp_path)
    for wrong in (codes[:, :2], codes.astype(np.float32), codes - 1):
        add_voice(tmp_path, "a", wrong, "words")
        with pytest.raises(CheckpointError, match=r"no codes|beyond 0"):
            load("m", tmp_path)
    (tmp_path / "voices" / "a.npy").write_bytes(b"\x80pickle")
    with pytest.raises(CheckpointError, match="truncated or damaged"):
        load("m", tmp_path)


def test_what_would_not_fit_is_refused_with_what_to_change(tmp_path: Path) -> None:
    FAMILY.write(tmp_path, "fish")
    model = FAMILY.load(tmp_path)
    model.fit(256)
    long = "It's the end of the world. " * 20
    with pytest.raises(TextTooLong, match="split it, or give the model a larger KV cache"):
        list(model.prepare(SpeechRequest("r", "m", "one", long)).read([Text(long)], final=True))
    model.fit(96)
    with pytest.raises(TextTooLong, match="recording takes"):
        list(model.prepare(SpeechRequest("r", "m", "one", "It")).read([Text("It")], final=True))


def test_the_start_says_that_hosted_use_needs_a_licence(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, codebooks=2)
    with structlog.testing.capture_logs() as logs:
        load("fish", tmp_path)
    (said,) = [line for line in logs if line["event"] == "weights.research_only"]
    assert said["log_level"] == "warning"
    assert "contract" in said["hosted"]
    (facts,) = [one for one in FAMILIES if one.name == "fish_s2"]
    assert "contract" in facts.weights == facts.codec.weights


def test_a_codec_that_was_not_converted_is_named(tmp_path: Path) -> None:
    from ttsfamilies.codecs import load as load_codec

    write_checkpoint(tmp_path, codebooks=3)
    (tmp_path / "codec.pth").write_bytes(b"")
    with pytest.raises(CheckpointError, match="antiphon convert"):
        load_codec("m", tmp_path)
    add_codec(tmp_path)
    assert load_codec("m", tmp_path).spec.samples_per_frame == 2048
