"""A voice folder, written and read back, and what evaluation and drafting make of it."""

import itertools
import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
import torch

from talker.engine.engine import Engine
from talker.synthesis import synthesise
from ttscommon.engine.checkpoint import codec_digest
from ttscommon.engine.voice import load_voice
from ttscommon.process.metrics import Metrics
from ttscommon.wire.errors import VoiceError
from ttscommon.wire.messages import Sampling, SpeechRequest
from ttsfamilies.base.codec.base import Work
from ttsfamilies.base.talker.options import LEXICON
from ttsfamilies.codecs import load as load_codec
from ttsfamilies.talkers import load as load_talker
from ttsfamilies.vesper.codec.net import VesperDecoder
from ttsfamilies.vesper.family import Vesper
from ttsfamilies.vesper.net import VesperNet, round_steps
from ttsfamilies.vesper.stream import VesperSampling
from voicetrain.vesper import page
from voicetrain.vesper.drafts import draft_accuracies
from voicetrain.vesper.evaluate import starts_of
from voicetrain.vesper.export import PRESETS, SPEEDS, export_voice
from voicetrain.vesper.report import sizes, speed
from voicetrain.vesper.speak import speak
from voicetrain.vesper.voice import Voice

TEXTS = ["Two cats.", "Is it late, or early?"]


@pytest.fixture
def folder(net: VesperNet, decoder: VesperDecoder, tmp_path: Path) -> Path:
    wide = VesperNet(net.config.__class__(**{**vars(net.config), "symbols": 178})).eval()
    wide.text_table.data = net.text_table.data
    export_voice(wide, decoder, LEXICON, tmp_path / "vesper")
    return tmp_path / "vesper"


def test_a_folder_holds_presets_notice_and_weights_it_vouches_for(folder: Path) -> None:
    voice = load_voice(folder)
    assert (voice.name, voice.family, voice.sample_rate) == ("vesper", "vesper", 24_000)
    assert voice.frame_rate_hz == 20
    assert [v.id for v in voice.voices] == list(PRESETS)
    assert {(v.language, v.gender) for v in voice.voices} == {("en-US", "female")}
    assert "hibari" in (folder / "NOTICE.txt").read_text()
    assert {"config.json", "lexicon.json.gz", "talker.safetensors"} <= sizes(folder).keys()


@pytest.fixture
def lower(folder: Path) -> Path:
    """A voice that has vesper's files and another config."""
    told = json.loads((LEXICON / "nocturn" / "config.json").read_text())
    (folder / "nocturn").mkdir()
    (folder / "nocturn" / "config.json").write_text(json.dumps(told))
    return folder / "nocturn"


def test_a_lower_voice_has_the_weights_of_the_one_above_and_longer_frames(lower: Path) -> None:
    above, voice = load_voice(lower.parent), load_voice(lower)
    assert voice.talker_weights == above.talker_weights
    assert {**above.config["codec"], "hop": 340} == voice.config["codec"]
    assert [v.id for v in voice.voices] == ["nocturn"]
    spec = load_codec("nocturn", lower).spec
    assert spec.samples_per_frame * voice.frame_rate_hz == pytest.approx(spec.sample_rate)
    assert load_talker("nocturn", lower).spec.frame_rate_hz == voice.frame_rate_hz


def test_a_lower_voice_is_another_codec_than_the_one_above_and_than_another_hop(
    lower: Path,
) -> None:
    found = {codec_digest(lower.parent), codec_digest(lower)}
    told = json.loads((lower / "config.json").read_text())
    (lower / "config.json").write_text(json.dumps({**told, "codec": {"hop": 360}}))
    assert len({*found, codec_digest(lower)}) == 3


def test_a_lower_voice_without_the_folder_above_is_refused(lower: Path) -> None:
    (lower.parent / "config.json").unlink()
    with pytest.raises(VoiceError, match="no voice folder"):
        load_voice(lower)


def test_a_damaged_folder_is_refused(folder: Path) -> None:
    with (folder / "talker.safetensors").open("r+b") as file:
        file.seek(-1, 2)
        file.write(b"\xff")
    with pytest.raises(VoiceError):
        Voice.load(folder)


def test_a_voice_speaks_as_before_it_was_exported(folder: Path, decoder: VesperDecoder) -> None:
    voice = Voice.load(folder)
    spoken = voice.spoken(TEXTS, seed=1)
    assert [len(s.units) for s in spoken] == [len(voice.tokens(text).ids) for text in TEXTS]
    made = voice.sound(spoken[0], "vesper-low")
    with torch.inference_mode():
        exact = decoder(spoken[0].codes[None], PRESETS["vesper-low"]["level"])[0].numpy()
    assert np.abs(made - exact).max() < 0.05


def test_a_page_has_a_sound_of_every_system_for_every_sentence(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("hibari", reason="the teacher belongs to the training environment")
    monkeypatch.setattr(page, "SENTENCES", TEXTS)
    monkeypatch.setattr(page, "PACES", (0.9,))
    written = page.write_page(tmp_path / "page", Voice.load(folder)).read_text()
    sounds = sorted(path.name for path in (tmp_path / "page").glob("*.wav"))
    assert len(sounds) == len(TEXTS) * (2 + len(PRESETS))
    assert all(f'src="{name}"' in written for name in sounds)


def test_words_start_where_their_tokens_do() -> None:
    assert starts_of(np.array([2, 1, 4])).tolist() == [0, 2, 3, 7]


def test_drafts_and_speed_are_measured(folder: Path) -> None:
    voice = Voice.load(folder)
    found = draft_accuracies(voice, TEXTS)
    chain = found["chain"]
    assert all(0 <= late <= early <= 1 for early, late in itertools.pairwise(chain))
    assert found["frames_a_verification"] == pytest.approx(1 + sum(chain), abs=1e-3)
    tops = list(found["first_code_in_top"].values())
    assert tops == sorted(tops)
    assert speed(folder, 1).keys() == {"talker_rtf", "decoder_rtf"}


def test_the_engines_say_what_is_spoken_offline(folder: Path) -> None:
    voice = Voice.load(folder)
    cold = VesperSampling(0.0, 0.0, 0.0)
    round_steps(voice.net)
    (offline,) = speak(voice.net, [voice.tokens(TEXTS[1]).ids], cold)
    told = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**told, "sampling": asdict(cold)}))
    model, codec = load_talker("m", folder), load_codec("m", folder)
    assert isinstance(model, Vesper)
    assert model.spec.speeds == SPEEDS
    request = SpeechRequest("r", "m", "vesper-low", TEXTS[1], sampling=Sampling(temperature=0.0))
    engine = Engine(model, blocks=64, slots=1, metrics=Metrics())
    (spoken,) = synthesise(engine, [request])
    np.testing.assert_array_equal(spoken.arrays["codes"], offline.codes.numpy())
    assert [word.word for word in spoken.words] == TEXTS[1].split()
    state = codec.open(request)
    (samples,) = codec.decode([Work(state, spoken.arrays, final=True)])
    assert np.abs(samples - voice.sound(offline, "vesper-low")).max() < 1e-3
