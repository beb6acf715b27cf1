"""Every family says what its reference says, whatever happens to its streams.

The goldens' noise is numpy's; it stands in for ours in the draw. `make test` takes three
families: all cases of the first checkpoint at once, joined in mid-flight, and one of each other
checkpoint alone; `make test-all` takes all of one family after another.
"""

from collections.abc import Callable, Iterator
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pytest

from tests.parity.codecs import CODECS
from tests.parity.families import FAMILIES
from tests.parity.runner import TREATMENTS, Loaded, alone, compare
from tests.parity.subject import Subject
from ttscommon.wire.fields import rows
from ttsfamilies.base.talker.base import CacheSpec
from ttsfamilies.known import FAMILIES as KNOWN

QUICK, FEW = {"orpheus", "csm", "higgs_audio"}, {"joined in mid-flight"}
# Whole segments cannot be cut, and are compared in float64: see test_kokoro.py, test_s3_flow.py,
# test_glm_voice.py.
# What Fish Audio's codec says may not be distributed.
ALONE = {"kokoro", "chatterbox", "cosyvoice", "fish_s2", "glm_voice", "step_audio2"}
Load = Callable[[str, str], Loaded[Any]]
every_family = pytest.mark.parametrize(
    "family",
    [pytest.param(one, marks=() if one in QUICK else pytest.mark.slow) for one in FAMILIES],
)


def test_every_published_family_and_its_codec_are_held_against_a_reference() -> None:
    published = [facts for facts in KNOWN if facts.published]
    assert [facts.name for facts in published if facts.name not in FAMILIES] == []
    codecs = [facts.codec.name for facts in published if facts.codec.name not in ALONE]
    assert [name for name in codecs if name not in CODECS] == []


@pytest.fixture(scope="module")
def load(tmp_path_factory: pytest.TempPathFactory) -> Load:
    """A family's checkpoint by name, written and loaded once."""

    @cache
    def loaded(family: str, checkpoint: str) -> Loaded[Any]:
        return Loaded(FAMILIES[family], tmp_path_factory.mktemp(family), checkpoint)

    return loaded


def _marked(*values: Any, name: str, soon: bool) -> Any:
    return pytest.param(*values, id=name, marks=() if soon else pytest.mark.slow)


def _cases() -> Iterator[Any]:
    for name, family in FAMILIES.items():
        for case in family.cases:
            first = case is family.of(case.checkpoint)[0]
            soon = name in QUICK and first and case.checkpoint != family.checkpoints[0]
            yield _marked(name, case, name=f"{name}-{case.name}", soon=soon)


def _treated() -> Iterator[Any]:
    for name, family in FAMILIES.items():
        for checkpoint, treatment in product(family.checkpoints, TREATMENTS):
            soon = name in QUICK and checkpoint == family.checkpoints[0] and treatment in FEW
            told = f"{name}-{checkpoint}-{treatment}"
            yield _marked(name, checkpoint, treatment, name=told, soon=soon)


@pytest.mark.parametrize(("family", "case"), list(_cases()))
def test_alone_it_says_what_the_reference_says(family: str, case: Any, load: Load) -> None:
    loaded = load(family, case.checkpoint)
    compare(loaded.subject, case, alone(loaded, case))


@pytest.mark.parametrize(("family", "checkpoint", "treatment"), list(_treated()))
def test_whatever_happens_it_says_the_same(
    family: str, checkpoint: str, treatment: str, load: Load
) -> None:
    loaded = load(family, checkpoint)
    for name, (case, found) in TREATMENTS[treatment](loaded).items():
        compare(loaded.subject, case, found, name)


def _told(what: str) -> list[str]:
    """Families whose subjects tell more than every one does."""
    plain = getattr(Subject, what)
    return [name for name, family in FAMILIES.items() if getattr(type(family), what) is not plain]


@pytest.mark.parametrize(
    ("family", "case"),
    [
        _marked(name, case, name=f"{name}-{case.name}", soon=name in QUICK)
        for name in _told("prompts")
        for case in FAMILIES[name].cases
    ],
)
def test_a_prompt_is_the_references(family: str, case: Any, load: Load) -> None:
    loaded = load(family, case.checkpoint)
    prepared = loaded.model.prepare(loaded.subject.request(case), loaded.derived(case))
    units = list(prepared.read(loaded.subject.pieces(case), final=True))
    found, wanted = loaded.subject.prompts(case, units)
    assert found == wanted


def test_cases_that_are_said_to_be_ended_by_the_model_are() -> None:
    pairs = [(family, case) for family in FAMILIES.values() for case in family.cases]
    ended = [pair for pair in pairs if "ended by the model" in pair[1].name]
    assert len(ended) > 10
    for subject, case in ended:
        most = subject.request(case).sampling.max_new_tokens or 0
        assert subject.steps * (rows(subject.wanted(case)) + 1) <= most, case.name


@every_family
def test_cases_have_frames_and_are_greedy_and_drawn(family: str) -> None:
    subject = FAMILIES[family]
    assert all(rows(subject.wanted(case)) for case in subject.cases)
    requests = [subject.request(case) for case in subject.cases]
    assert {request.sampling.temperature == 0 for request in requests} == {True, False}


@every_family
def test_cases_have_small_and_published_head_counts(family: str, load: Load) -> None:
    subject = FAMILIES[family]
    specs = [load(family, checkpoint).model.spec.caches for checkpoint in subject.checkpoints]
    for cache_name, published in subject.published_heads.items():
        found = {_heads(spec[cache_name]) for spec in specs}
        assert published in found
        assert len(found) > 1
    assert all(spec.keys() == subject.published_heads.keys() for spec in specs)


def _heads(spec: CacheSpec) -> tuple[int, int, int]:
    return spec.heads, spec.kv_heads, spec.head_dim


@every_family
def test_what_clones_has_a_case_that_clones(family: str, load: Load) -> None:
    subject = FAMILIES[family]
    accepts = load(family, subject.checkpoints[0]).model.spec.accepts
    requests = [subject.request(case) for case in subject.cases]
    if "turns" in accepts:
        assert any(turn.sound for request in requests for turn in request.turns)
    elif "ref_audio" in accepts:  # what takes turns reads a recording as one of them
        assert any(request.reference for request in requests)


@pytest.mark.parametrize(
    "family", [_marked(one, name=one, soon=one == "zonos") for one in _told("recorded")]
)
def test_what_is_heard_of_a_recording_is_the_references(family: str, load: Load) -> None:
    subject = FAMILIES[family]
    for case in subject.cases:
        for name, wanted in subject.recorded(case).items():
            heard = load(family, case.checkpoint).derived(case).reference
            assert heard is not None
            np.testing.assert_allclose(
                heard[name], wanted, 0, subject.heard_atol, err_msg=case.name
            )
