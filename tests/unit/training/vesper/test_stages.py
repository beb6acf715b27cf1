"""The stages' keys, and a budget divided."""

import os
from contextlib import suppress
from pathlib import Path

import pytest

from voicetrain.vesper import stages
from voicetrain.vesper.stages import FEWEST_TEXTS, MOST_TEXTS, Plan, Workshop

PLAN = Plan(seed=1, texts=600, decoder_s=20, talker_s=20, drafter_s=20)


def test_an_interrupted_stage_keeps_its_files_and_is_done_again_but_once(tmp_path: Path) -> None:
    workshop, checkpoint = Workshop(tmp_path, PLAN), tmp_path / "talker.pt"

    def interrupted() -> None:
        checkpoint.write_text("half")
        raise KeyboardInterrupt

    with suppress(KeyboardInterrupt):
        workshop.run("talker", interrupted)
    seen: list[str] = []
    for again in (workshop, Workshop(tmp_path, PLAN)):
        again.run("talker", lambda: seen.append(checkpoint.read_text()))
    assert seen == ["half"]


def test_another_plan_throws_away_what_it_cannot_use(tmp_path: Path) -> None:
    Workshop(tmp_path, PLAN).run("talker", lambda: (tmp_path / "talker.pt").touch())
    longer = Workshop(tmp_path, Plan(seed=1, texts=600, decoder_s=20, talker_s=40, drafter_s=20))
    longer.run("decoder", lambda: None)
    longer.run("talker", lambda: None)
    assert not (tmp_path / "talker.pt").exists()
    changed = longer.keys.items() - Workshop(tmp_path, PLAN).keys.items()
    assert {stage for stage, _ in changed} == {"talker", "drafter"}


class Signed(Workshop):
    """Its stages write which process did them."""

    def work(self, stage: str) -> None:
        self.run(stage, lambda: self.sign(stage))

    def sign(self, stage: str) -> None:
        with (self.folder / f"{stage}.pid").open("a", encoding="utf-8") as file:
            file.write(f"{os.getpid()}\n")


@pytest.mark.slow
def test_the_decoder_is_made_in_another_process_and_every_stage_once(tmp_path: Path) -> None:
    for _ in range(2):
        workshop = Signed(tmp_path, PLAN)
        workshop.make()
    pids = {stage: (tmp_path / f"{stage}.pid").read_text().split() for stage in workshop.keys}
    others = [stage for stage, found in pids.items() if found != [str(os.getpid())]]
    assert others == ["decoder"]
    assert len(pids["decoder"]) == 1


@pytest.mark.parametrize("minutes", [1, 20, 120])
def test_a_budget_is_divided_and_not_exceeded(minutes: float) -> None:
    plan = Plan.of_budget(minutes, seed=1)
    assert FEWEST_TEXTS <= plan.texts <= MOST_TEXTS
    if minutes > 2:
        spent = plan.decoder_s + plan.talker_s + plan.drafter_s
        spent += plan.texts * stages.SECONDS_PER_TEXT
        assert spent <= 60 * minutes


def test_the_last_utterances_are_held_out() -> None:
    assert stages.last(1000).tolist() == list(range(984, 1000))
    assert len(stages.last(23_000)) == 230
