"""What is Kyutai TTS's own: what steps are told, and words."""

import hashlib
import json
from pathlib import Path

import pytest
import torch

from talker.engine.engine import Engine
from talker.synthesis import synthesise
from tests.parity.families.kyutai_tts import FAMILY, goldens
from tests.parity.kyutai_cases import CASES, Case
from tests.parity.runner import Loaded
from ttscommon.engine.checkpoint import dump_json
from ttscommon.engine.nn.weights import published_shapes
from ttscommon.process.metrics import Metrics
from ttscommon.wire.fields import cut
from ttscommon.wire.pieces import Text
from ttsfamilies.kyutai_tts.config import load_config
from ttsfamilies.kyutai_tts.net import KyutaiNet, sources
from ttsfamilies.kyutai_tts.stream import KyutaiStream
from ttsfamilies.kyutai_tts.synthetic import published

pytestmark = pytest.mark.slow  # one more family

SMALL = [case for case in CASES if case.checkpoint == "kyutai"]


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Loaded[Case]:
    return Loaded(FAMILY, tmp_path_factory.mktemp("kyutai"), "kyutai")


@pytest.mark.parametrize("case", SMALL, ids=[case.name for case in SMALL])
def test_steps_are_told_what_the_reference_tells_them(loaded: Loaded[Case], case: Case) -> None:
    prepared = loaded.model.prepare(FAMILY.request(case))
    stream = loaded.model.open(prepared)
    assert isinstance(stream, KyutaiStream)
    wanted = FAMILY.wanted(case)
    stream.restore(cut(wanted, 0, len(wanted["codes"]) - 1))
    stream.feed(list(prepared.read([Text(case.text)], final=True)), final=True)
    plan = stream.plan(0)
    assert plan is not None
    told = stream.inputs(plan)["text"][1:].tolist()
    assert told == goldens()[case.name]["text"][: len(told)]
    assert len(told) == len(goldens()[case.name]["text"]) - 1


@pytest.mark.parametrize("case", SMALL[:2], ids=[case.name for case in SMALL[:2]])
def test_words_begin_where_the_reference_says(loaded: Loaded[Case], case: Case) -> None:
    engine = Engine(loaded.model, slots=1, blocks=FAMILY.blocks, metrics=Metrics())
    (spoken,) = synthesise(engine, [FAMILY.request(case)])
    words = spoken.words
    theirs = goldens()[case.name]
    assert [round(word.start_s * 12.5, 6) for word in words] == [
        step for _, step in theirs["words"]
    ]
    ends = [step for _, step in theirs["words"][1:]] + [theirs["end"]]
    assert [round(word.end_s * 12.5, 6) for word in words] == ends
    plain = str.maketrans({"\u2019": "'", ":": "", "(": "", ")": ""})
    assert [word.word.translate(plain) for word in words] == [word for word, _ in theirs["words"]]


def test_names_and_shapes_of_the_published_sizes_are_the_references(tmp_path: Path) -> None:
    dump_json(tmp_path / "config.json", published())
    with torch.device("meta"):
        net = KyutaiNet(load_config(tmp_path))
    found = {name: list(shape) for name, shape in published_shapes(net, sources(net)).items()}
    found["depformer_text_emb.low_rank.weight"] = [1024, 128]  # nothing is computed with it
    digest = hashlib.sha256(json.dumps(sorted(found.items())).encode()).hexdigest()
    assert digest == goldens()["shapes"]
