"""What is Higgs Audio's own: ends, codes drawn again, recordings, its third version."""

from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np

from talker.engine.engine import Engine
from talker.synthesis import synthesise
from tests.parity.families.higgs_audio import FAMILY, goldens, rows_of
from tests.parity.higgs_audio_cases import CASES, HEARD, IDS, SEED
from tests.parity.higgs_audio_cases import THIRD as THIRD_CASE
from tests.parity.material import arrays, pcm, wav
from tests.parity.runner import Loaded, alone
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

END = IDS - 1


def test_another_codebook_ends_it_too() -> None:
    (case,) = [case for case in CASES if case.checkpoint == "higgs-strays"]
    rows = rows_of(case)
    first = np.flatnonzero((rows == END).any(1))[0]
    assert (rows[-1] == END).all()
    assert rows[first, 0] != END
    assert (rows[first + 1 :, 0] == END).all()


def test_what_repeats_itself_is_drawn_again(tmp_path: Path) -> None:
    loaded = Loaded(FAMILY, tmp_path, "higgs")
    (case,) = [case for case in CASES if case.name == "repeated and drawn"]
    once = alone(loaded, replace(case, window=0))["codes"]
    assert not np.array_equal(once, FAMILY.wanted(case)["codes"])


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
