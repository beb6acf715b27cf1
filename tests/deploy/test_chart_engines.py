"""Engines of the chart: talkers, vocoders, and pairs of both."""

from pathlib import Path
from typing import Any

import pytest
from helm_python.errors import HelmError

from antiphon.pair import load_settings
from talker.settings import TalkerSettings
from tests.deploy.chart import (
    HOUSEHOLD,
    MODEL,
    SECRETS,
    environment,
    external,
    jobs,
    of_kind,
    pods,
    render,
    understood,
)
from ttscommon.process.settings import StageSettings


def test_a_setting_of_a_pair_may_be_one_stages_alone() -> None:
    own = {"talker__slots": 48, "vocoder__slots": 300, "kv_bytes": 1 << 30}
    values: dict[str, Any] = {"models": [{**MODEL, "paired": True, "pair": {"settings": own}}]}
    objects = render({**values, "pair": {"autoscaling": {"kind": "keda", "maxReplicas": 3}}})
    talking, vocoding = load_settings(environment(pods(objects)["antiphon-vesper-pair"], SECRETS))
    assert (talking.slots, vocoding.slots, talking.kv_bytes) == (48, 300, 1 << 30)
    [job] = jobs(objects)
    assert environment(job, SECRETS)["ANTIPHON_BUS__SLOTS"] == "900"
    [scaler] = of_kind(objects, "ScaledObject")
    queries = [trigger["metadata"]["query"] for trigger in scaler["spec"]["triggers"]]
    assert len(queries) == 6
    assert {stage for stage in ("talker", "vocoder") if f'stage="{stage}"' in str(queries)} == {
        "talker",
        "vocoder",
    }


@pytest.mark.parametrize("kind", ["nkey", "creds"])
def test_a_pair_has_the_identities_of_both_stages(kind: str) -> None:
    objects = render({**external(kind), "models": [{**MODEL, "paired": True}]})
    pod = pods(objects)["antiphon-vesper-pair"]
    values = environment(pod, SECRETS)
    assert values[f"ANTIPHON_BUS__{kind.upper()}_FILE"] == "/run/antiphon/bus/talker"
    assert values[f"ANTIPHON_VOCODER__BUS__{kind.upper()}_FILE"] == "/run/antiphon/bus/vocoder"
    [volume] = [v for v in pod["spec"]["volumes"] if v["name"] == "bus-identity"]
    assert [item["key"] for item in volume["secret"]["items"]] == ["talker", "vocoder"]


@pytest.mark.parametrize("paired", [False, True])
def test_a_codec_that_is_published_by_itself_has_a_folder_of_its_own(paired: bool) -> None:
    weights = {"claim": "voices", "path": "higgs", "codec": "higgs-codec"}
    model = {"name": "higgs", "weights": weights, "paired": paired}
    found = pods(render({"models": [model]}))
    stages = [
        settings
        for name in sorted(found)
        if name.startswith("antiphon-higgs-")
        for _, settings in understood(found[name])
    ]
    assert [str(one.voice_dir) for one in stages if isinstance(one, StageSettings)] == [
        "/app/voices/higgs",
        "/app/voices/higgs-codec",
    ]
    [talker] = [one for one in stages if isinstance(one, TalkerSettings)]
    assert str(talker.codec_dir) == "/app/voices/higgs-codec"


def test_models_that_share_pods_are_all_served_by_them_and_made_at_the_broker() -> None:
    objects = render({"models": [HOUSEHOLD]})
    found = pods(objects)
    assert {name for name in found if name.endswith(("-talker", "-vocoder"))} == {
        "antiphon-amy-talker",
        "antiphon-amy-vocoder",
    }
    [(_, talking)] = understood(found["antiphon-amy-talker"])
    [(_, vocoding)] = understood(found["antiphon-amy-vocoder"])
    assert isinstance(talking, TalkerSettings)
    assert isinstance(vocoding, StageSettings)
    folders = [(one.model, str(one.voice_dir), one.codec_dir) for one in talking.each()]
    assert folders == [
        ("amy", "/app/voices/piper/amy", None),
        ("joe", "/app/voices/piper/joe", None),
        ("higgs", "/app/voices/higgs", Path("/app/voices/higgs-codec")),
    ]
    assert [str(one.voice_dir) for one in vocoding.each()] == [
        "/app/voices/piper/amy",
        "/app/voices/piper/joe",
        "/app/voices/higgs-codec",
    ]
    [setup] = jobs(objects)
    assert setup["spec"]["containers"][0]["command"][-3:] == ["amy", "joe", "higgs"]


@pytest.mark.parametrize(
    ("stage", "setting", "value"), [("talker", "kv_bytes", 2 << 30), ("vocoder", "state_mb", 2048)]
)
def test_an_engines_memory_has_to_hold_what_its_streams_carry(
    stage: str, setting: str, value: int
) -> None:
    settings = {"settings": {setting: value}}
    with pytest.raises(HelmError, match=f"{setting} and the process need 2816 Mi"):
        render({stage: settings})
    render({stage: {**settings, "resources": {"limits": {"memory": "3Gi"}}}})
    render({stage: {**settings, "gpu": {"count": 1}}})
