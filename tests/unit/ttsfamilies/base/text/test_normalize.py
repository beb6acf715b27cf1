import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.growth import grows_linearly
from tests.random_cases import examples
from ttsfamilies.base.text.normalize import PAUSE_MARK, Normalizer

CASES = {
    "numbers": [
        ("I have 3 cats", "i have three cats"),
        ("1,234 of 10,000", "one thousand two hundred thirty four of ten thousand"),
        ("-5 and 3.14", "minus five and three point one four"),
        ("agent 007", "agent zero zero seven"),
        ("call 911 now", "call nine one one now"),
        ("21st and 3rd", "twenty first and third"),
        ("2 1/2 cups or ¾", "two and a half cups or three quarters"),
        ("pages 5-10", "pages five to ten"),
        ("open 24/7", "open twenty four seven"),
        ("10k users, 3x faster", "ten thousand users three times faster"),
        ("account 12345678901", "account one two three four five six seven eight nine zero one"),
    ],
    "dates": [
        ("May 3, 2024", "may third , twenty twenty four"),
        ("the 3rd of May 2024", "the third of may twenty twenty four"),
        ("4 July 1776", "the fourth of july seventeen seventy six"),
        ("2024-05-03", "may third twenty twenty four"),
        ("12/25/1999", "december twenty fifth nineteen ninety nine"),
        ("31.12.1999", "the thirty first of december nineteen ninety nine"),
        ("in 1905 and 2007", "in nineteen oh five and two thousand seven"),
        ("the 1990s and the '80s", "the nineteen nineties and the eighties"),
        ("from 1939–45", "from nineteen thirty nine to forty five"),
    ],
    "times": [
        ("at 3:45 pm", "at three forty five p m"),
        ("at 7 a.m. sharp", "at seven _a m sharp"),
        ("at 3:05", "at three oh five"),
        ("at 3:00", "at three o'clock"),
        ("12:30-13:45", "twelve thirty to thirteen forty five"),
        ("17:00 UTC", "seventeen hundred u t c"),
        ("9am-5pm", "nine _a m to five p m"),
    ],
    "money": [
        ("$3.50", "three dollars and fifty cents"),
        ("$1", "one dollar"),
        ("$0.99", "ninety nine cents"),
        ("$3 million", "three million dollars"),
        ("$1.5bn", "one point five billion dollars"),
        ("£5.20 or 20 €", "five pounds and twenty pence or twenty euros"),
        ("$10-$20", "ten dollars to twenty dollars"),
        ("$10-20", "ten to twenty dollars"),
        ("$15/hr", "fifteen dollars per hour"),
    ],
    "units": [
        ("5 km and 1 mi", "five kilometers and one mile"),
        ("60mph", "sixty miles per hour"),
        ("6 ft. 2 in. tall", "six feet two inches tall"),
        ("20°C", "twenty degrees celsius"),
        ("16 GB at 3.2GHz", "sixteen gigabytes at three point two gigahertz"),
        ("5–10%", "five to ten percent"),
        ("3 m²", "three square meters"),
        ("2.5 mg/kg", "two point five milligrams per kilogram"),
        ("1/2 tsp. salt", "one half teaspoon salt"),
        ("4x4, 10/10", "four by four ten out of ten"),
    ],
    "telephone": [
        ("555-1234", "five five five , one two three four"),
        ("(555) 123-4567", "five five five , one two three , four five six seven"),
    ],
    "names": [
        ("Henry VIII", "henry the eighth"),
        ("Chapter IV", "chapter four"),
        ("World War II", "world war two"),
        ("I think", "i think"),
        ("Dr. King on King Dr.", "doctor king on king drive"),
        ("St. John lives on Main St.", "saint john lives on main street"),
        ("No. 5, no. Yes", "number five no yes"),
        ("e.g. this, i.e. that", "for example this that is that"),
        ("Smith vs. Acme Inc.", "smith versus acme incorporated"),
    ],
    "acronyms": [
        ("NASA and the FBI", "nasa and the f b i"),
        ("two CPUs", "two c p u 's"),
        ("the U.S.-based, L.A.'s", "the u s based l _a 's"),
        ("Press the RED button, USSR", "press the red button u s s r"),
        ("the U.S. and the U.K.", "the u s and the u k"),
        ("AT&T's R&D", "at and t's r and d"),
        ("COVID-19 and B12", "covid nineteen and b twelve"),
        ("THIS IS A LOUD TEST", "this is a loud test"),
    ],
    "net": [
        ("www.test.org", "test dot org"),
        ("https://example.com/a/b?q=1#x", "example dot com slash a slash b"),
        ("joe.smith@example.com", "joe dot smith at example dot com"),
        ("#hello @world", "hashtag hello at world"),
        ("[text](https://x.com/abc)", "text"),
        ("**bold** and `code`", "bold and code"),
        ("<p>Hello <b>world</b></p>", "hello world"),
        ("C++, C# and .NET", "c plus plus c sharp and dot net"),
        ("nice :) really <3", "nice really"),
        ("Node.js", "node dot j s"),
    ],
    "writing": [
        ("JavaScript and camelCase", "javascript and camel case"),
        ("state-of-the-art", "state of the art"),
        ("O'Neil and McDonald's", "oneil and mcdonald 's"),
        ("don't, you'll, dogs'", "don't you'll dogs"),
        ("soooo goooood", "so good"),
        ("2 + 2 = 4", "two plus two equals four"),
        ("well,you know", "well , you know"),
        ("café naïve Zoë", "cafe naive zoe"),
        ("Привет", "privet"),
        ("Read this. I will read", "read this i will read"),
        ("It ended. A cat came", "it ended a cat came"),
        ("A cat got an A", "a cat got an _a"),
    ],
}


def spoken(normalizer: Normalizer, text: str) -> str:
    return " ".join(word for written in normalizer.words(text) for word in written.spoken)


@pytest.mark.parametrize(("text", "expected"), [case for cases in CASES.values() for case in cases])
def test_is_read_as_people_read_it(normalizer: Normalizer, text: str, expected: str) -> None:
    assert spoken(normalizer, text) == expected


@pytest.mark.parametrize("text", ["", " \n", "🎉🎉", "...", "— - *", "日本語", "\u200b\ufeff"])
def test_says_nothing_where_nothing_is_to_be_said(normalizer: Normalizer, text: str) -> None:
    assert normalizer.words(text) == []


def test_keeps_words_as_written(normalizer: Normalizer) -> None:
    words = normalizer.words("Hello, 😀 it’s May 3, 2024!")
    assert [word.text for word in words] == ["Hello,", "it’s", "May 3, 2024!"]


@pytest.mark.parametrize(
    ("text", "pauses"),
    [
        ("one, two three.", [True, False, True]),
        ("Dr. Smith (here) now", [False, False, True, False]),
        ("first - second—third", [True, False]),
        ("U.S. soil", [False, False]),
    ],
)
def test_phrases_end_at_punctuation(normalizer: Normalizer, text: str, pauses: list[bool]) -> None:
    assert [word.pause for word in normalizer.words(text)] == pauses


@examples(300)
@given(
    st.text(max_size=200)
    | st.text(alphabet="aAbIVX019 .,:;-/$€%@#'\"()[]½²°–—\n\tkmx+=<>", max_size=60)
)
def test_any_text_becomes_lexicon_words(normalizer: Normalizer, text: str) -> None:
    allowed = frozenset("abcdefghijklmnopqrstuvwxyz'_")
    for written in normalizer.words(text):
        assert written.spoken
        assert written.text in " ".join(text.split())
        for word in written.spoken:
            assert word == PAUSE_MARK or (word and allowed.issuperset(word))


HOSTILE = [
    "a",
    "1",
    "1,",
    "-",
    "(",
    "@a",
    "1.1",
    "A",
    "http://",
    "$1 ",
    "1/",
    "aA",
    "'s",
    "x@",
    "-1",
    "/a",
    "1:",
    "a=",
    "1 ",
    "a.",
    "\\a",
    "[pause",
    "1'",
    "^2",
    "I ",
    "1-a-",
    "Mon, ",
    "1E",
]


@pytest.mark.parametrize("unit", HOSTILE)
def test_time_grows_linearly(normalizer: Normalizer, unit: str) -> None:
    assert grows_linearly(lambda length: normalizer.words((unit * length)[:length]), 2_000)
