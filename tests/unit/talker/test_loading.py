"""Models that say nothing to warm up are served all the same."""

from pathlib import Path

from talker.loading import build_engine
from talker.settings import TalkerSettings
from ttscommon.process.metrics import Metrics
from ttsfamilies.step_audio2.synthetic import write_checkpoint


def test_a_model_that_ends_before_its_first_frame_is_served_and_promises_no_pace(
    tmp_path: Path,
) -> None:
    write_checkpoint(tmp_path, ending=40.0)
    settings = TalkerSettings(model="m", voice_dir=tmp_path, kv_blocks=256, slots=4)
    engine = build_engine(settings, Metrics())
    assert dict(engine.family.measured_round_s) == engine.step_seconds == {}
    assert engine.idle
