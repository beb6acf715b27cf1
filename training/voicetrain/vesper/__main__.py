"""`python -m voicetrain.vesper`: make the vesper voice, measure it, write its page.

make       all stages and the voice folder; run again after an interruption, it goes on
export     write the voice folder from the checkpoints of a run that is still going
eval       measure a voice folder; what it measured before stays in its report
card       the voice folder's README with samples, from the last evaluation
page       sounds of the teacher and the voice side by side, to listen to
"""

import argparse
import json
from pathlib import Path

import torch

from voicetrain.vesper.card import write_card
from voicetrain.vesper.evaluate import Evaluation
from voicetrain.vesper.export import export_voice
from voicetrain.vesper.page import write_page
from voicetrain.vesper.parts import REPORT_NAME, Report
from voicetrain.vesper.report import MEASURES, evaluate_voice, texts_of
from voicetrain.vesper.stages import Plan, Workshop, make_voice
from voicetrain.vesper.voice import Voice

WORK = Path("build/vesper")
VOICE = Path("voices/vesper")
MEMORY = Path("build/vesper-eval.jsonl")
PAGE = Path("build/vesper-page")
BUDGET_MINUTES = 120.0
COMMANDS = ("make", "export", "eval", "card", "page")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="voicetrain.vesper", description=__doc__)
    parser.add_argument("command", choices=COMMANDS)
    parser.add_argument("--work", type=Path, default=WORK)
    parser.add_argument("--voice", type=Path, default=VOICE)
    parser.add_argument("--report", type=Path, help=f"by default {REPORT_NAME} in the voice folder")
    parser.add_argument("--memory", type=Path, default=MEMORY, help="what the judges said before")
    parser.add_argument("--only", action="append", choices=MEASURES, help="a part of eval; repeat")
    parser.add_argument("--page", type=Path, default=PAGE)
    parser.add_argument("--budget-minutes", type=float, default=BUDGET_MINUTES)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sentences", type=int, default=100, help="of each evaluation set")
    parser.add_argument("--reliability", type=int, default=1000, help="texts of the ending test")
    return parser.parse_args()


def _workshop(arguments: argparse.Namespace) -> Workshop:
    plan_file = arguments.work / "plan.json"
    if arguments.command != "make" and plan_file.exists():
        return Workshop(arguments.work, Plan(**json.loads(plan_file.read_text("utf-8"))))
    return Workshop(arguments.work, Plan.of_budget(arguments.budget_minutes, arguments.seed))


def _report(arguments: argparse.Namespace) -> Report:
    return Report(arguments.report or arguments.voice / REPORT_NAME, arguments.voice)


def main() -> None:
    """Run one command."""
    arguments = _arguments()
    torch.set_num_threads(1)
    workshop, command = _workshop(arguments), arguments.command
    if command == "make":
        make_voice(workshop, arguments.voice)
    if command == "export":
        lexicon = workshop.folder / "lexicon"
        export_voice(workshop.talker(), workshop.decoder(), lexicon, arguments.voice)
    if command == "eval":
        parts = arguments.only or MEASURES
        texts = texts_of(parts, arguments.sentences, arguments.reliability)
        evaluation = Evaluation(arguments.voice, arguments.memory)
        evaluate_voice(evaluation, _report(arguments), texts)
    if command == "card":
        write_card(arguments.voice, _report(arguments))
    if command == "page":
        print(write_page(arguments.page, Voice.load(arguments.voice)))


if __name__ == "__main__":
    main()
