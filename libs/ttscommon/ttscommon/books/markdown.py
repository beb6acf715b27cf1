"""Markdown (CommonMark with tables) by markdown-it-py: headings make chapters, code is left out."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Final

from markdown_it import MarkdownIt
from markdown_it.token import Token

from ttscommon.books.book import Outline
from ttscommon.books.plain import decoded
from ttscommon.books.xhtml import Paragraph, plain

_FRONT: Final = re.compile(r"---[ \t]*\n(.*?)\n(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)
_NOTE: Final = re.compile(r"^\[\^[^\[\]\n]+\]:.*(?:\n(?:[ ]{2,}|\t).*)*\n?", re.MULTILINE)
_NOTE_MARK: Final = re.compile(r"\[\^[^\[\]\n]+\]")
_BREAKS: Final = ("softbreak", "hardbreak")
_SAID: Final = ("text", "code_inline")


def read_markdown(data: bytes) -> Outline:
    """Raises InvalidBook."""
    text = decoded(data)
    front = _FRONT.match(text)
    outline = _described(front[1]) if front else Outline()
    text = text[front.end() :] if front else text
    text = _NOTE_MARK.sub("", _NOTE.sub("", text))
    paragraphs = list(_paragraphs(MarkdownIt("commonmark").enable("table").parse(text)))
    title, levels = _division(paragraphs)
    outline.title = outline.title or title
    for paragraph in paragraphs:
        if paragraph.level in levels:
            outline.begin(" ".join(paragraph.text.split()))
        outline.add(paragraph.text)
    return outline


def _described(front: str) -> Outline:
    """Title, author and language of the lines in front, as Pandoc and Jekyll write them."""
    pairs = (line.partition(":") for line in front.splitlines() if line[:1].isalpha())
    said = {key.strip().lower(): value.strip().strip("\"'") for key, _, value in pairs}
    language = said.get("lang") or said.get("language", "")
    return Outline(said.get("title", ""), said.get("author", ""), language)


def _paragraphs(tokens: list[Token]) -> Iterator[Paragraph]:
    level = 0
    for token in tokens:
        if token.type == "heading_open":
            level = int(token.tag[1:])
        elif token.type == "heading_close":
            level = 0
        elif token.type == "inline" and (text := plain(_said(token.children or []))):
            yield Paragraph(text, level)


def _said(tokens: list[Token]) -> str:
    return "".join(
        "\n" if token.type in _BREAKS else token.content if token.type in _SAID else ""
        for token in tokens
    )


def _division(paragraphs: list[Paragraph]) -> tuple[str, set[int]]:
    """The title, if a single heading stands above all, and the levels of headings of chapters."""
    counts = Counter(paragraph.level for paragraph in paragraphs if paragraph.level)
    top, *below = sorted(counts) or [0]
    if counts[top] != 1:
        return "", {top} - {0}
    title = next(one.text for one in paragraphs if one.level == top)
    return " ".join(title.split()), {top, *below[:1]}
