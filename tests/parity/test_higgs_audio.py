"""What is Higgs Audio's own: recordings, and its third version."""

from pathlib import Path

import msgspec
import numpy as np

from talker.engine.engine import Engine
from talker.synthesis import synthesise
from tests.parity.families.higgs_audio import FAMILY, goldens
from tests.parity.higgs_audio_cases import HEARD, SEED
from tests.parity.higgs_audio_cases import THIRD as THIRD_CASE
from tests.parity.material import arrays, pcm, wav
from ttscommon.process.metrics import Metrics
from ttscommon.wire.pieces import Text
from ttsfamilies.base.talker.options import ModelOptions
from ttsfamilies.higgs_audio.family import HiggsAudio, load
from ttsfamilies.higgs_audio.synthetic import (
    PUBLISHED,
    SECOND,
    SMALL,
    THIRD,
    write_checkpoint,
    write_codec,
)


def loaded_with_codec(folder: Path, kind: str) -> HiggsAudio:
    """A talker that encodes recordings."""
    heads = PUBLISHED[THIRD] if kind == THIRD else SMALL
    write_checkpoint(folder / "talker", kind=kind, seed=SEED, heads=heads)
    write_codec(folder / "codec", seed=SEED)
    codec = folder / "codec"
    return load("m", folder / "talker", ModelOptions(codec=codec))


def test_recordings_become_the_references_codes(tmp_path: Path) -> None:
    model = loaded_with_codec(tmp_path, SECOND)
    assert {"ref_audio", "ref_text", "turns", "speaker"} <= model.spec.accepts
    found = model.derive(wav(pcm(*HEARD)))["codes"]
    np.testing.assert_array_equal(found, arrays("higgs_audio")["heard"])


def test_the_third_versions_network_says_what_qwen3_does_by_its_rules(tmp_path: Path) -> None:
    model = loaded_with_codec(tmp_path, THIRD)
    case, wanted = THIRD_CASE, goldens()[THIRD_CASE.name]
    request = msgspec.structs.replace(FAMILY.request(case), extra_params={})
    prepared = model.prepare(request, FAMILY.derived(model, case))
    (prompt,) = prepared.read([Text(case.text)], final=True)
    assert prompt.text.tolist() == wanted["prompt"]
    engine = Engine(model, slots=1, blocks=64, metrics=Metrics())
    (spoken,) = synthesise(engine, [request], turns=FAMILY.derived(model, case).turns)
    np.testing.assert_array_equal(spoken.arrays["codes"], wanted["rows"])
