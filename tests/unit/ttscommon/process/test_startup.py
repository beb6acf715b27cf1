"""A start is accounted for, part by part."""

import time
from contextlib import suppress
from pathlib import Path

from ttscommon.process.metrics import Metrics
from ttscommon.process.startup import Startup, process_began_s, waited_s


class Clock:
    now_s = 10.0

    def __call__(self) -> float:
        return self.now_s


def test_parts_and_what_none_accounts_for_make_up_the_whole() -> None:
    clock, told = Clock(), dict[tuple[str, str], float]()
    startup = Startup(lambda stage, part, s: told.update({(stage, part): s}), clock, began_s=8.0)
    startup.imported()
    with startup.part("load"):
        clock.now_s += 1.0
    with suppress(OSError), startup.part("load"):  # one that fails counts
        clock.now_s += 2.0
        raise OSError
    clock.now_s += 0.5
    startup.finish("talker")
    parts = {"import": 2.0, "load": 3.0, "other": 0.5}
    assert told == {("talker", part): seconds for part, seconds in parts.items()}


def test_what_all_threads_waited_for_a_processor_is_summed_up(tmp_path: Path) -> None:
    for thread, waited_ns in (("7", 1_500_000_000), ("8", 500_000_000)):
        (tmp_path / thread).mkdir()
        (tmp_path / thread / "schedstat").write_text(f"900 {waited_ns} 12\n")
    assert waited_s(tmp_path) == 2.0
    assert waited_s(Path("/nowhere")) == 0.0


def test_no_start_waited_longer_than_it_took() -> None:
    told: list[tuple[str, float]] = []
    clock = Clock()
    Startup(clock=clock, began_s=clock.now_s, tell_waited=lambda *word: told.append(word)).finish(
        "talker"
    )
    assert told == [("talker", 0.0)]


def test_the_time_before_the_first_import_counts() -> None:
    assert process_began_s() <= time.monotonic()
    assert process_began_s(Path("/nowhere")) <= time.monotonic()


def test_parts_are_exported_by_stage() -> None:
    metrics = Metrics("vesper")
    metrics.startup.imported()
    metrics.startup.finish("talker")
    labels = {"stage": "talker", "part": "import", "model": "vesper"}
    seconds = metrics.registry.get_sample_value("tts_startup_seconds", labels)
    assert seconds is not None
    assert seconds > 0
