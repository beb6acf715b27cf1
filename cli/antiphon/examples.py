"""Examples of the commands, at the end of each one's help."""

from __future__ import annotations

from typing import Final

EXAMPLES: Final = {
    "up": (
        "antiphon up",
        "antiphon up --port 9000 --talkers 2 --vocoders 2",
        "antiphon up --model qwen=Qwen/Qwen3-TTS-12Hz-0.6B-CustomVoice --device cuda",
        "antiphon up --set talker.slots=8",
    ),
    "say": (
        'antiphon say "The tide is coming in."',
        'antiphon say "The tide is coming in." -o tide.mp3 --srt tide.srt',
        "antiphon say --file chapter.txt --voice vesper-calm -o chapter.opus",
        "some-llm | antiphon say",
        'antiphon say "Hello." -o - | aplay -f S16_LE -r 24000',
    ),
    "read": (
        "antiphon read book.epub -o book.opus",
        "antiphon read book.epub -o book.mp3 --voice vesper-calm --speed 0.9",
        "antiphon read book.md -o book.opus --cast cast.txt --vtt book.vtt",
    ),
    "voices": (
        "antiphon voices",
        "antiphon voices --language en --gender female",
        "antiphon voices --json",
    ),
    "models": (
        "antiphon models",
        "antiphon models --known",
        "antiphon models --known --json",
    ),
    "detect": (
        "antiphon detect speech.mp3",
        "antiphon detect speech.wav --json",
    ),
    "doctor": (
        "antiphon doctor",
        "antiphon doctor --gpu",
        "antiphon doctor --url https://speech.example.org --json",
    ),
    "plan": (
        "antiphon plan --curves curves --callers 500",
        "antiphon plan --curves curves --rate 20 --json",
    ),
    "convert": (
        "antiphon convert hexgrad/Kokoro-82M",
        "antiphon convert ./checkpoint --file model.pth --output ./converted",
    ),
    "calibrate": (
        "antiphon calibrate --out curves",
        "antiphon up --engine fake --curve curves",
    ),
    "bus create": ("ANTIPHON_BUS__URLS=nats://nats:4222 antiphon bus create",),
    "bus migrate": ("antiphon bus migrate",),
    "bus check": ("antiphon bus check",),
    "bus backup": ("antiphon bus backup /backups --keep 7",),
    "bus restore": ("antiphon bus restore /backups",),
    "bus accounts": ("antiphon bus accounts --model vesper --model qwen",),
    "keys make": (
        "antiphon keys make reader --file keys.toml",
        "antiphon keys make reader --streams 4 --model vesper --expires 2030-01-01",
    ),
    "keys rotate": (
        "antiphon keys rotate reader",
        "antiphon keys rotate reader --finish",
    ),
    "keys revoke": ("antiphon keys revoke reader",),
    "keys list": ("antiphon keys list", "antiphon keys list --file keys.toml --json"),
}


def examples(command: str) -> str:
    """The last part of a command's help; a paragraph each, since help joins lines."""
    lines = (line.replace("[", r"\[") for line in EXAMPLES[command])
    return "\n\n".join(["[dim]Examples[/]", *lines])
