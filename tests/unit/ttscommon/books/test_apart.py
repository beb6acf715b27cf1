"""Books that are made to hurt their reader are read, or refused, within bounds."""

import asyncio
from typing import Final

import psutil
import pytest

from tests.books import NAV, PACKAGE, epub
from tests.waits import until
from ttscommon.books import BookPauses, InvalidBook, ReadOrder, apart, read_apart
from ttscommon.wire.errors import Overloaded

_DEEP: Final = 16_000
_SPINE: Final = PACKAGE.replace('<itemref idref="nav"/>', '<itemref idref="c2"/>' * 50_000)
_NESTED: Final = (
    NAV[: NAV.index("<li>")]
    + '<li><a href="text/two.xhtml#later">Later</a><ol>' * _DEEP
    + '<li><a href="text/one%20.xhtml">Last</a></li>'
    + "</ol></li>" * _DEEP
    + "</ol></nav></body></html>"
)
# A paragraph that the reader of Markdown needs half a minute for.
SLOW: Final = b"word [a](b) *c* " * 300_000
SMALL: Final = {
    "contents 16,000 deep": (ReadOrder("epub"), epub(nav_xhtml=_NESTED).getvalue(), 70),
    "one document 50,000 times": (ReadOrder("epub"), epub(book_opf=_SPINE).getvalue(), 70),
    "a line of spaces": (ReadOrder("text", ("Ann",)), b"a\n" + b" " * 200_000 + b"b", 3),
    "notes without end": (ReadOrder("markdown"), b"a " + b"[^" * 20_000, 40_002),
    "a sentence without end": (ReadOrder("text"), b"word " * 400_000, 2_000_000),
}


def readers() -> list[psutil.Process]:
    """Processes of ours that read books."""
    children = psutil.Process().children()
    return [one for one in children if _reads(one)]


def _reads(child: psutil.Process) -> bool:
    """False of one that died since it was listed."""
    try:
        return "ttscommon.books" in child.cmdline()
    except psutil.NoSuchProcess:
        return False


@pytest.mark.parametrize("attack", SMALL)
async def test_a_small_bomb_is_a_book_like_any_other(attack: str) -> None:
    order, data, characters = SMALL[attack]
    assert (await read_apart(order, data)).characters == pytest.approx(characters, rel=0.5)


@pytest.mark.slow
async def test_a_book_that_takes_too_long_is_refused() -> None:
    """It takes all of its thirty seconds of processor time."""
    with pytest.raises(InvalidBook, match="too long"):
        await read_apart(ReadOrder("markdown"), 3 * SLOW)


async def test_a_process_without_processor_time_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apart, "_LONGEST_S", 0.5)
    with pytest.raises(Overloaded):
        await read_apart(ReadOrder("markdown"), SLOW)
    assert readers() == []


@pytest.mark.slow
async def test_a_book_that_takes_too_much_memory_is_refused() -> None:
    with pytest.raises(InvalidBook, match="too much memory"):
        await read_apart(ReadOrder("markdown"), b"- a\n" * (12 << 20))


async def test_the_process_knows_no_secrets_and_ends_when_its_caller_leaves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ANTIPHON_RESUME_SECRET", "x" * 32)
    reading = asyncio.create_task(read_apart(ReadOrder("markdown"), SLOW))
    await until(readers)
    assert "ANTIPHON_RESUME_SECRET" not in readers()[0].environ()
    reading.cancel()
    await asyncio.gather(reading, return_exceptions=True)
    assert readers() == []


@pytest.mark.parametrize(
    ("paragraphs", "pause_s", "told"),
    [(30_000, 60.0, "12 hours"), (50_001, 0.0, "50000 paragraphs")],
)
def test_no_job_has_more_portions_or_silence_than_can_be_kept(
    paragraphs: int, pause_s: float, told: str
) -> None:
    order = ReadOrder("text", pauses=BookPauses(pause_s, 0))
    with pytest.raises(InvalidBook, match=told):
        apart.read(order, b"a\n\n" * paragraphs)


def test_names_are_lines_that_tags_have_room_for() -> None:
    title = "A\r\nCHAPTER002=x\x00" + "y" * 20_000
    found = apart.read(ReadOrder("text", title=title), b"Chapter 1\n\nIt was calm.")
    assert found.title.startswith("A CHAPTER002=x y")
    assert len(found.title) == 500


def test_an_attribute_for_all_elements_is_refused() -> None:
    two = '<!DOCTYPE html [<!ATTLIST p class CDATA "x">]><html><body><p>a</p></body></html>'
    with pytest.raises(InvalidBook, match="attribute 'class'"):
        apart.read(ReadOrder("epub"), epub(two_xhtml=two).getvalue())
