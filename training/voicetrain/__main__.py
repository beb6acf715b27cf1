"""`python -m voicetrain`: make the default voice, measure it, write its card.

make    all stages, the voice folder, its evaluation and card; run again after an interruption,
        it goes on
export  write the voice folder from the checkpoints of a run that is still going
eval    measure a voice folder; report and plot beside the work folder
card    samples, pictures and model card from the last evaluation
"""

import argparse
import json
import os
from pathlib import Path

import torch

from voicetrain.card import write_card
from voicetrain.export import export_voice
from voicetrain.report import evaluate_voice
from voicetrain.stages import Plan, Workshop, make_voice

WORK = Path("build/voice")
VOICE = Path("voices/cantor")
REPORT = Path("build/voice-eval.json")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="voicetrain", description=__doc__)
    parser.add_argument("command", choices=("make", "export", "eval", "card"))
    parser.add_argument("--work", type=Path, default=WORK)
    parser.add_argument("--voice", type=Path, default=VOICE)
    parser.add_argument("--report", type=Path, default=REPORT)
    parser.add_argument("--budget-minutes", type=float, default=90.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--voices-each", type=int, default=1, help="voices a sentence is read in")
    parser.add_argument("--sentences", type=int, default=None, help="at most so many of each set")
    parser.add_argument("--reliability", type=int, default=1000, help="texts of the stopping test")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="where to train")
    parser.add_argument("--no-eval", action="store_true", help="make: stop after the export")
    return parser.parse_args()


def _workshop(arguments: argparse.Namespace) -> Workshop:
    plan_file = arguments.work / "plan.json"
    if arguments.command != "make" and plan_file.exists():
        plan = Plan(**json.loads(plan_file.read_text("utf-8")))
    else:
        plan = Plan.of_budget(arguments.budget_minutes, arguments.seed, arguments.workers)
    return Workshop(arguments.work, plan, arguments.workers, arguments.device)


def main() -> None:
    """Run one command."""
    arguments = _arguments()
    torch.set_num_threads(1)
    workshop, command = _workshop(arguments), arguments.command
    if command == "make":
        make_voice(workshop, arguments.voice)
    if command == "export":
        export_voice(workshop.talker(), workshop.decoder(), arguments.voice)
    if command == "eval" or (command == "make" and not arguments.no_eval):
        evaluate_voice(
            workshop,
            arguments.voice,
            arguments.report,
            voices_each=arguments.voices_each,
            limit=arguments.sentences,
            stopping_texts=arguments.reliability,
        )
    if command == "card" or (command == "make" and not arguments.no_eval):
        write_card(workshop, arguments.voice, arguments.report)


if __name__ == "__main__":
    main()
