import io
import zipfile
from contextlib import suppress

import pytest

from tests.books import CONTAINER, NAV, ONE, PACKAGE, TWO, epub, png
from ttscommon.books import Book, BookPassage, InvalidBook, read_book
from ttscommon.books import epub as reader

NCX = """<?xml version="1.0"?>
<!DOCTYPE ncx PUBLIC "-//NISO//DTD ncx 2005-1//EN" "http://www.daisy.org/z3986/2005/ncx-2005-1.dtd">
<ncx xmlns="http://www.daisy.org/z3986/2005/ncx/"><docTitle><text>No</text></docTitle><navMap>
<navPoint><navLabel><text>Alpha</text></navLabel><content src="text/two.xhtml"/>
<navPoint><navLabel><text>Beta</text></navLabel><content src="text/two.xhtml#later"/></navPoint>
</navPoint><navPoint><navLabel><text>Gamma</text></navLabel><content src="text/one%20.xhtml"/>
</navPoint></navMap><pageList><pageTarget><navLabel><text>7</text></navLabel>
<content src="text/two.xhtml#p7"/></pageTarget></pageList></ncx>"""
BOMB = '<!DOCTYPE html [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;">]>'


def book(*speakers: str, **changes: str | bytes | None) -> Book:
    return read_book(epub(**changes), "epub", speakers=speakers)


def test_chapters_follow_the_spine_and_are_named_by_the_contents() -> None:
    found = book()
    assert [chapter.title for chapter in found.chapters] == [
        *("The first chapter", "Later", "The second chapter")
    ]
    assert [[one.text for one in chapter.passages] for chapter in found.chapters] == [
        ["One", "The lamps are lit. On the 19th.", "Bare text", "Ann: Good evening. Bob: Is it?"],
        ["It is later."],
        ["Two", "The tide."],
    ]


def test_metadata_is_the_packages() -> None:
    found = book()
    assert (found.title, found.author, found.language) == (
        *("The Lamps & the Tide", "Ann Wright", "en-GB"),
    )
    assert found.cover is not None
    assert (found.cover.data, found.cover.media_type) == (png(), "image/png")


def test_lines_of_speakers_who_are_known_are_theirs() -> None:
    assert book("ann", "Bob").chapters[0].passages[-2:] == (
        BookPassage("Good evening.", "ann"),
        BookPassage("Is it?", "Bob"),
    )


def test_contents_of_epub_2_are_read() -> None:
    older = PACKAGE.replace('properties="nav"', "").replace(
        "application/xhtml+xml", "application/x-dtbncx+xml", 1
    )
    found = book(nav_xhtml=NCX, book_opf=older)
    assert [chapter.title for chapter in found.chapters] == ["Alpha", "Beta", "Gamma"]


def test_a_book_without_contents_has_a_chapter_for_each_document() -> None:
    bare = PACKAGE.replace(' properties="nav"', "").replace('<itemref idref="nav"/>', "")
    found = book(nav_xhtml=ONE, book_opf=bare)
    assert [chapter.title for chapter in found.chapters] == ["One", "Two"]


def test_deep_entries_are_left_out_where_there_are_too_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ttscommon.books.epub.MOST_CHAPTERS", 2)
    assert [chapter.title for chapter in book().chapters] == [
        *("The first chapter", "The second chapter")
    ]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"container_xml": None}, "no META-INF/container.xml"),
        ({"container_xml": CONTAINER.replace("rootfile ", "other ")}, "no package document"),
        ({"book_opf": None}, "OEBPS/book.opf, which is not in it"),
        ({"two_xhtml": None}, "OEBPS/text/two.xhtml, which is not in it"),
        ({"book_opf": PACKAGE.replace("<itemref", "<other")}, "no document to read"),
        ({"two_xhtml": TWO.replace("</h1>", "")}, "two.xhtml is not well-formed.*line 12"),
        ({"two_xhtml": BOMB + TWO.partition(">")[2]}, "declares the entity 'a'"),
        ({"book_opf": BOMB + PACKAGE.partition("?>")[2]}, "declares the entity 'a'"),
        ({"two_xhtml": "<html/>", "one_xhtml": "<html/>"}, "no text in the book"),
    ],
)
def test_a_broken_book_is_refused_with_a_reason(changes: dict[str, str | None], says: str) -> None:
    with pytest.raises(InvalidBook, match=says):
        book(**changes)


def test_a_chapter_that_is_protected_is_refused_and_a_font_is_not() -> None:
    protected = (
        '<encryption xmlns:e="http://www.w3.org/2001/04/xmlenc#">'
        '<e:CipherReference URI="OEBPS/{}"/></encryption>'
    )

    def with_encryption(path: str) -> io.BytesIO:
        made = epub()
        with zipfile.ZipFile(made, "a") as file:
            file.writestr("META-INF/encryption.xml", protected.format(path))
        return made

    assert read_book(with_encryption("a.otf"), "epub").chapters
    with pytest.raises(InvalidBook, match="DRM"):
        read_book(with_encryption("text/two.xhtml"), "epub")


def test_a_zip_bomb_is_not_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "MOST_FILE_BYTES", 1 << 20)
    with pytest.raises(InvalidBook, match=r"two\.xhtml is too large"):
        book(two_xhtml=TWO.replace("One", "1" * (2 << 20)))


def test_all_files_together_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "MOST_READ_BYTES", 3000)
    with pytest.raises(InvalidBook, match="too large"):
        book(nav_xhtml=NAV + " " * 2500)


@pytest.mark.parametrize("content", [b"", b"no archive", b"PK\x05\x06", epub().read()[:-30]])
def test_what_is_no_archive_is_refused(content: bytes) -> None:
    with pytest.raises(InvalidBook, match=r"no EPUB|damaged"):
        read_book(io.BytesIO(content), "epub")


def test_a_directory_of_many_files_is_refused_unread() -> None:
    end = bytearray(epub().read())
    at = end.rfind(b"PK\x05\x06")
    end[at + 12 : at + 16] = (5 << 20).to_bytes(4, "little")
    with pytest.raises(InvalidBook, match="too many files"):
        read_book(io.BytesIO(end), "epub")


def test_every_flipped_byte_is_a_book_or_a_refusal() -> None:
    whole = epub().read()
    for place in range(0, len(whole), 7):
        broken = bytearray(whole)
        broken[place] ^= 0xFF
        with suppress(InvalidBook):
            assert read_book(io.BytesIO(broken), "epub").chapters
