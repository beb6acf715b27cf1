"""Models that say nothing to warm up are served all the same."""

from pathlib import Path

import pytest

from talker.engine.engine import Engine
from talker.loading import build_engine, load_family
from talker.settings import TalkerSettings
from ttscommon.process.metrics import Metrics
from ttsfamilies.step_audio2.synthetic import write_checkpoint

ENDS_AT_ONCE = 40.0


@pytest.fixture
def silent(tmp_path: Path) -> TalkerSettings:
    """A model whose answers end before their first sound."""
    write_checkpoint(tmp_path, ending=ENDS_AT_ONCE)
    return TalkerSettings(model="m", voice_dir=tmp_path, kv_blocks=256, slots=4)


def test_a_model_that_ends_before_its_first_frame_loads_with_nothing_measured(
    silent: TalkerSettings,
) -> None:
    assert dict(load_family(silent).measured_round_s) == {}


def test_its_engine_promises_no_pace_before_traffic(silent: TalkerSettings) -> None:
    engine: Engine = build_engine(silent, Metrics())
    assert engine.step_seconds == {}
    assert engine.idle
