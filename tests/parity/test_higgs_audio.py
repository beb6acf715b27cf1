"""What is Higgs Audio's own: prompts, ends, codes drawn again, recordings, its third version."""

from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest

from talker.engine.engine import Engine
from talker.synthesis import synthesise
from tests.parity.csm_cases import wav
from tests.parity.families.higgs_audio import FAMILY, ended, goldens, rows_of
from tests.parity.higgs_audio_cases import CASES, HEARD, IDS, SEED, Case, pcm
from tests.parity.higgs_audio_cases import THIRD as THIRD_CASE
from tests.parity.material import GOLDENS
from tests.parity.runner import Loaded, alone
from ttscommon.process.metrics import Metrics
from ttscommon.wire.pieces import Text
from ttsfamilies.base.lm.turns import FRAME
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

BEGIN, END = IDS - 2, IDS - 1
SOUNDS = (128_014, 128_016)


def case_of(checkpoint: str) -> Case:
    (case,) = [case for case in CASES if case.checkpoint == checkpoint]
    return case


def test_the_model_ends_its_own_speech() -> None:
    case = case_of("higgs-ending")
    rows, wanted = rows_of(case), FAMILY.wanted(case)["codes"]
    assert ended(case)
    assert 7 < len(wanted) < case.frames
    # The reference draws two rows more, of a frame whose first code is the end.
    assert len(rows) == len(wanted) + 2
    assert (wanted[-7:, 0] == END).all()


def test_another_codebook_ends_it_too() -> None:
    case = case_of("higgs-strays")
    rows = rows_of(case)
    first = np.flatnonzero((rows == END).any(1))[0]
    assert ended(case)
    assert rows[first, 0] != END
    assert (rows[first + 1 :, 0] == END).all()


def test_what_repeats_itself_is_drawn_again(tmp_path: Path) -> None:
    loaded = Loaded(FAMILY, tmp_path, "higgs")
    (case,) = [case for case in CASES if case.name == "repeated and drawn"]
    once = alone(loaded, replace(case, window=0))["codes"]
    assert not np.array_equal(once, FAMILY.wanted(case)["codes"])


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Loaded[Case]:
    return Loaded(FAMILY, tmp_path_factory.mktemp("higgs"), "higgs")


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_a_prompt_is_the_references(loaded: Loaded[Case], case: Case) -> None:
    prepared = loaded.model.prepare(FAMILY.request(case), loaded.derived(case))
    (prompt,) = prepared.read([Text(case.text)], final=True)
    theirs = np.array(goldens()[case.name]["prompt"])
    sound = np.isin(theirs, SOUNDS)
    # The first row, which is always the same, is a part of the prompt.
    np.testing.assert_array_equal(prompt.text, [*np.where(sound, FRAME, theirs), FRAME])
    assert (prompt.codes[-1] == BEGIN).all()
    assert prompt.frames == case.frames + 7


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
    with np.load(GOLDENS / "higgs_audio.npz") as file:
        np.testing.assert_array_equal(found, file["heard"])


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
