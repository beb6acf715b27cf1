"""Curves and costs are read strictly: nothing is made up for what was not measured."""

import json
import runpy
from pathlib import Path
from typing import Any

import pytest

from antiphon_bench.plan import PlanError, costs
from antiphon_bench.plan.costs import Edge, read_curves
from tests.unit.antiphon_bench.plan.scene import CURVES, write_curves
from ttscommon.process.settings import ServiceSettings


def test_settings_are_made_with_a_plan_and_none_by_an_import(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[str] = []

    def init(self: ServiceSettings, **given: Any) -> None:
        made.append(type(self).__name__)
        super(ServiceSettings, self).__init__(**given)

    monkeypatch.setenv("ANTIPHON_SLOTS", "many")
    monkeypatch.setattr(ServiceSettings, "__init__", init)
    module = runpy.run_path(str(costs.__file__))
    assert made == []
    assert module["Setup"](CURVES).talker.slots == 64
    assert made == ["GatewaySettings", "TalkerSettings", "VocoderSettings"]


def test_what_was_written_is_read(tmp_path: Path) -> None:
    assert read_curves(write_curves(tmp_path)) == CURVES


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("talker.json", "antiphon calibrate"),
        ("vocoder.json", "antiphon calibrate"),
        ("costs.json", "antiphon bench costs"),
    ],
)
def test_a_file_that_is_missing_names_the_command_that_writes_it(
    tmp_path: Path, name: str, command: str
) -> None:
    (write_curves(tmp_path) / name).unlink()
    with pytest.raises(PlanError, match=f"{name}: it is not there; `{command}`"):
        read_curves(tmp_path)


@pytest.mark.parametrize(
    "curve",
    [
        "step times",
        '{"base_s": 0.0, "stream_s": 0.0}',
        '{"base_s": -0.1}',
        '{"step_s": {"0": 0.01}}',
        '{"turn_s": {"1": 20.0}}',
        '{"drafts": {"2": {"step_s": {"1": 0.01}, "gained": 2.5}}}',
        '{"drafts": {"2": {"step_s": {}}}}',
    ],
)
def test_a_curve_that_no_calibration_wrote_is_refused(tmp_path: Path, curve: str) -> None:
    (write_curves(tmp_path) / "talker.json").write_text(curve)
    with pytest.raises(PlanError, match=r"talker\.json"):
        read_curves(tmp_path)


@pytest.mark.parametrize(
    "changed",
    [
        {"hop_s": -1.0},
        {"speech": {"frame_rate_hz": 0.0, "seconds_per_character": 0.06}},
        {"colour": "green"},
        {"slower": {"talker": {"alone": 1.0, "crowded": 0.0}}},
    ],
)
def test_costs_that_no_measurement_wrote_are_refused(
    tmp_path: Path, changed: dict[str, Any]
) -> None:
    with pytest.raises(PlanError, match=r"costs\.json"):
        read_curves(write_curves(tmp_path, **changed))


def test_curves_of_a_calibration_may_hold_what_they_were_fitted_to(tmp_path: Path) -> None:
    path = write_curves(tmp_path) / "vocoder.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "measured": [[1, 1, 0.005]]}))
    assert read_curves(tmp_path).vocoder == CURVES.vocoder


def test_a_refusal_costs_what_was_measured_or_half_a_request() -> None:
    assert Edge(0.004, 0.001).refusal_s == 0.002
    for refused_s, asked_s in ((0.003, 0.002), (0.001, 0.001)):
        edge = Edge(0.004, 0.001, refused_s=refused_s)
        assert (edge.refusal_s, edge.asked_s) == (refused_s, asked_s)
