"""A published voice beside the runner that Piper itself uses, with the same noise.

What every family is held to is in test_families.py and test_codecs.py.
"""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

from talker.engine.engine import Engine
from talker.synthesis import synthesise
from tests.parity.codec_runner import in_pieces
from tests.parity.codecs import CODECS
from tests.parity.families.piper import CASES, FAMILY, SEED, Case, codec, referred, talker
from tests.parity.runner import Loaded, alone
from ttscommon.process.metrics import Metrics
from ttscommon.wire.fields import Array, Arrays, rows
from ttscommon.wire.messages import SpeechRequest
from ttscommon.wire.parameters import Value
from ttscommon.wire.pieces import Text
from ttsfamilies.base.text.frontend import Substitution
from ttsfamilies.piper.family import Piper
from ttsfamilies.piper.phones import Sentence
from ttsfamilies.piper.voice import HOP

pytestmark = pytest.mark.slow  # one more family

STEP = 1 / 32768
GOLDEN: Final = Path(__file__).parent / "goldens/piper_sentences.json"


def heard(frames: Arrays, *pieces: int) -> Array:
    """Samples, decoded in pieces of so many frames, and the rest."""
    told = {name: frames[name] for name in codec().spec.frame}
    return in_pieces(codec(), CODECS["piper"]._replace(material=lambda: told), pieces)


def durations(frames: Arrays) -> list[list[int]]:
    """Frames of each id, sentence by sentence."""
    found = []
    for passage in np.unique(frames["passage"]):
        places = frames["place"][frames["passage"] == passage]
        found.append(np.bincount(places).tolist())
    return found


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_samples_are_the_references_within_a_few_steps(case: Case, tmp_path: Path) -> None:
    frames = alone(Loaded(FAMILY, tmp_path, case.checkpoint), case)
    whole = np.concatenate([one.sound for one in referred(case)])
    for pieces in ((), (20, 4, 28, 48, *[64] * 99)):
        sound = heard(frames, *pieces)
        assert len(sound) == len(whole) == rows(frames) * HOP
        # Float32 over a sentence of 8 s: 3.6 steps at one sample.
        assert np.abs(sound - whole).max() < (4 if "long" in case.name else 3) * STEP


@pytest.mark.parametrize("told", json.loads(GOLDEN.read_text("utf-8")))
def test_a_sentence_is_read_whole_and_lasts_as_long_as_the_packages(told: dict[str, Any]) -> None:
    left, known = list(told["phonemes"]), dict[str, str]()

    def packages(text: str, given: tuple[Substitution, ...] = ()) -> Sentence:
        if text not in known:
            known[text] = left.pop(0)
        return Sentence((), (), (), tuple(known[text]))

    voice = Piper("joe", talker()._net, talker()._config, {"own": packages})
    still: dict[str, Value] = {"noise_scale": 0.0, "noise_w": 0.0, "length_scale": 1.0}
    request = SpeechRequest("r", "joe", "joe", told["text"], extra_params=still)
    (spoken,) = synthesise(Engine(voice, slots=4, metrics=Metrics()), [request])
    assert left == []
    assert [HOP * sum(ids) for ids in durations(spoken.arrays)] == told["samples"]


def test_the_first_clause_goes_alone_where_that_is_asked_for() -> None:
    text = "When it was dark, the kettle boiled, and nobody said a word."
    request = SpeechRequest("r", "joe", "joe", text, extra_params={"first_clause": True})
    said = list(talker().prepare(request).read([Text(text)], final=True))
    assert [" ".join(word.text for word in one.words) for one in said] == [
        "When it was dark,",
        "the kettle boiled, and nobody said a word.",
    ]


def test_words_are_where_their_phones_are() -> None:
    engine = Engine(talker(), slots=1, metrics=Metrics())
    text = "The kettle has just boiled, so come in and sit down."
    (spoken,) = synthesise(engine, [SpeechRequest("r", "joe", "joe", text, seed=SEED)])
    words = spoken.words
    assert [word.word for word in words] == text.split()
    edges = [edge for word in words for edge in (word.start_s, word.end_s)]
    assert all(a <= b for a, b in pairwise(edges))
    sound = heard(spoken.arrays)
    loud = [np.abs(sound[int(w.start_s * 22050) : int(w.end_s * 22050)]).max() for w in words]
    assert min(loud) > 0.02
