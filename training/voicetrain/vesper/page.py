"""A page to listen to: the teacher and the voice side by side, its presets and paces."""

import html
import wave
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np

from ttscommon.wire.fields import Array
from voicetrain.vesper.scores import RATE
from voicetrain.vesper.teacher import Teacher
from voicetrain.vesper.voice import Voice

SENTENCES: Final = (
    "Good morning, everyone, and welcome to the show.",
    "The train from the city arrives at half past nine.",
    "Would you mind opening the door for me?",
    "Your total is $42.50, due on March 3rd.",
    "No, I never said that she stole my money; I said that she borrowed it!",
    "Although it was late, and the last bus had gone, nobody in the kitchen wanted to leave.",
)
PACES: Final = (0.7, 0.85, 1.2, 1.4)
_LEVEL: Final = 0.7


def write_wav(path: Path, sound: Array) -> None:
    """A mono file of 16 bits, no louder than _LEVEL."""
    loudest = max(_LEVEL, float(np.abs(sound).max()))
    pcm = np.clip(sound * (_LEVEL / loudest) * 32767, -32768, 32767).astype("<i2")
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE)
        file.writeframes(pcm.tobytes())


def write_page(folder: Path, voice: Voice) -> Path:
    """Sounds and `index.html`."""
    folder.mkdir(parents=True, exist_ok=True)
    systems: dict[str, Callable[[str], Array]] = {"teacher": Teacher().sound}
    systems |= {preset: partial(voice.said, preset=preset) for preset in voice.presets}
    systems |= {f"at {pace}": partial(voice.said, pace=pace) for pace in PACES}
    rows = []
    for number, text in enumerate(SENTENCES):
        cells = []
        for name, say in systems.items():
            path = folder / f"{number}-{name.replace(' ', '-')}.wav"
            write_wav(path, say(text))
            cells.append(f'<td><audio controls preload="none" src="{path.name}"></audio></td>')
        rows.append(f"<tr><th>{html.escape(text)}</th>{''.join(cells)}</tr>")
    head = "".join(f"<th>{html.escape(name)}</th>" for name in systems)
    page = folder / "index.html"
    page.write_text(_PAGE.format(head=head, rows="\n".join(rows)), "utf-8")
    return page


_PAGE: Final = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>vesper, side by side</title>
<style>
  body {{ font: 16px/1.5 system-ui, sans-serif; margin: 2rem; }}
  table {{ border-collapse: collapse; }}
  th {{ font-weight: 600; text-align: left; max-width: 22rem; }}
  th, td {{ padding: .4rem .6rem; border-bottom: 1px solid #ddd; vertical-align: middle; }}
  audio {{ width: 11rem; }}
</style>
<h1>vesper, side by side</h1>
<table>
<tr><th></th>{head}</tr>
{rows}
</table>
</html>
"""
