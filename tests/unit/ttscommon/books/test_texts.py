import io

import pytest

from ttscommon.books import Book, BookPassage, InvalidBook, kind_of, read_book

NOVEL = """The Lamps
by Ann

CHAPTER I.
In which it is dark

The lamps are
lit.

It is 9: late.

Chapter 2

Note: the tide.
Bob: Good evening.
Well met.
Ann: Is it?
"""

NOTES = """---
title: "The Tide"
author: Ann Wright
lang: en
---
# The Tide

Before.[^1]

## One

It is *late*, `now`,
and [dark](x.html) ![pic](a.png).

```python
print("not read")
```

| a | b |
| - | - |
| c | d |

[^1]: A note.
    And more of it.

## Two

- **Ann:** Yes.
- No.
"""


def text(content: str, *speakers: str) -> Book:
    return read_book(io.BytesIO(content.encode()), "text", speakers=speakers, title="A file")


def markdown(content: str, *speakers: str) -> Book:
    return read_book(io.BytesIO(content.encode()), "markdown", speakers=speakers, title="A file")


def said(book: Book) -> list[tuple[str, list[str]]]:
    return [(one.title, [passage.text for passage in one.passages]) for one in book.chapters]


def test_chapters_of_text_begin_at_what_looks_like_their_headings() -> None:
    assert said(text(NOVEL)) == [
        ("A file", ["The Lamps by Ann"]),
        (
            "CHAPTER I. In which it is dark",
            ["CHAPTER I. In which it is dark", "The lamps are lit.", "It is 9: late."],
        ),
        ("Chapter 2", ["Chapter 2", "Note: the tide. Bob: Good evening. Well met. Ann: Is it?"]),
    ]


def test_a_speaker_has_the_lines_up_to_the_next_name() -> None:
    assert text(NOVEL, "bob", "Ann").chapters[-1].passages[1:] == (
        BookPassage("Note: the tide."),
        BookPassage("Good evening. Well met.", "bob"),
        BookPassage("Is it?", "Ann"),
    )


@pytest.mark.parametrize("line", ["Part of it was dark.", "Book the flight now.", "ACT"])
def test_a_sentence_is_no_heading(line: str) -> None:
    assert len(text(f"Before.\n\n{line}\n\nBehind.").chapters) == 1


@pytest.mark.parametrize(
    "line", ["PART ONE", "Chapter twenty-one: Rain", "Kapitel 3", "BOOK THE FIRST", "Epilogue"]
)
def test_headings_are_known_in_words_and_numbers(line: str) -> None:
    assert [one.title for one in text(f"Before.\n\n{line}\n\nBehind.").chapters] == ["A file", line]


def test_markdown_is_read_without_code_notes_and_markup() -> None:
    found = markdown(NOTES, "Ann")
    assert (found.title, found.author, found.language) == ("The Tide", "Ann Wright", "en")
    assert said(found) == [
        ("The Tide", ["The Tide", "Before."]),
        ("One", ["One", "It is late, now, and dark .", "a", "b", "c", "d"]),
        ("Two", ["Two", "Yes.", "No."]),
    ]
    assert found.chapters[2].passages[1].speaker == "Ann"


def test_headings_of_the_same_level_are_chapters_whatever_it_is() -> None:
    assert said(markdown("## One\n\nA.\n\n### B\n\n## Two\n\nC."))[0] == ("One", ["One", "A.", "B"])


def test_windows_files_are_read() -> None:
    data = io.BytesIO("Eins.\r\n\r\nZwei".encode("utf-16"))
    assert said(read_book(data, "text")) == [("Untitled", ["Eins.", "Zwei"])]


@pytest.mark.parametrize(
    ("data", "says"),
    [(b"na\xefve", "not UTF-8 at byte 2"), (b"a\0b", "is no text"), (b" --- \n\n", "no text in")],
)
def test_what_cannot_be_read_is_refused_with_its_reason(data: bytes, says: str) -> None:
    with pytest.raises(InvalidBook, match=says):
        read_book(io.BytesIO(data), "text")


def test_a_kind_is_known_by_the_end_of_a_name() -> None:
    assert [kind_of(name) for name in ("a.TXT", "b.md", "c.epub")] == ["text", "markdown", "epub"]
    with pytest.raises(InvalidBook, match=r"\.txt, .*\.epub"):
        kind_of("a.pdf")
