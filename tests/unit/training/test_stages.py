"""The stages' keys: what is done again and what is not."""

from contextlib import suppress
from functools import partial
from pathlib import Path

from voicetrain.stages import FEWEST_SENTENCES, MOST_SENTENCES, Plan, Workshop, key_of

PLAN = Plan(seed=1, sentences=600, codec_s=20, vocoder_s=20, talker_s=20)


def test_a_key_depends_on_version_parameters_and_inputs() -> None:
    keys = {
        key_of("codec", 1, {"seed": 1}, ["a"]),
        key_of("codec", 2, {"seed": 1}, ["a"]),
        key_of("codec", 1, {"seed": 2}, ["a"]),
        key_of("codec", 1, {"seed": 1}, ["b"]),
    }
    assert len(keys) == 4


def test_a_done_stage_is_skipped(tmp_path: Path) -> None:
    calls: list[str] = []
    for _ in range(2):
        Workshop(tmp_path, PLAN, 1).run("codec", lambda: calls.append("work"))
    assert calls == ["work"]


def test_an_interrupted_stage_keeps_its_files_and_is_done_again(tmp_path: Path) -> None:
    workshop = Workshop(tmp_path, PLAN, 1)
    checkpoint = tmp_path / "codec.pt"

    def interrupted() -> None:
        checkpoint.write_text("half")
        raise KeyboardInterrupt

    with suppress(KeyboardInterrupt):
        workshop.run("codec", interrupted)
    seen: list[str] = []
    workshop.run("codec", lambda: seen.append(checkpoint.read_text()))
    assert seen == ["half"]


def touch(path: Path) -> None:
    path.write_text("old")


def test_another_plan_forgets_what_depends_on_it_and_nothing_else(tmp_path: Path) -> None:
    workshop = Workshop(tmp_path, PLAN, 1)
    for stage in ("codec", "talker"):
        workshop.run(stage, partial(touch, tmp_path / f"{stage}.pt"))
    longer = Workshop(tmp_path, Plan(1, 600, 20, 20, talker_s=99), 1)
    ran: list[str] = []
    for stage in ("codec", "talker"):
        longer.run(stage, partial(ran.append, stage))
    assert ran == ["talker"]
    assert (tmp_path / "codec.pt").exists()
    assert not (tmp_path / "talker.pt").exists()


def test_a_budget_becomes_a_plan_within_bounds() -> None:
    small, large = Plan.of_budget(1, 1, 2), Plan.of_budget(600, 1, 2)
    assert small.sentences == FEWEST_SENTENCES
    assert large.sentences == MOST_SENTENCES
    assert small.talker_s < large.talker_s
