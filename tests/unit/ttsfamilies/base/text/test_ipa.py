"""IPA, as dictionaries and clients write it, in the frontend's phones."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttscommon.wire.errors import BadRequest
from ttsfamilies.base.text.frontend import EnglishFrontend
from ttsfamilies.base.text.ipa import SYMBOL_IDS, phones_of
from ttsfamilies.base.text.misaki import symbols_of

# Sounds of the voice's own lexicon that given phones do without: a flap, reduced vowels.
_SHARED = str.maketrans("Tᵊᵻɐ", "təɪʌ")


@pytest.mark.parametrize(
    ("ipa", "phones"),
    [
        ("təˈmeɪtoʊ", "t ax0 m ey1 t ow0"),
        ("/təˈmɑː.təʊ/", "t ax0 m aa1 t ow0"),
        ("laɪv", "l ay1 v"),
        ("lˈIv", "l ay1 v"),
        ("ˈt͡ʃɜːrtʃ", "ch er1 ch"),
        ("ˈʤʌʤ", "jh ah1 jh"),
        ("ˌmɛtˈfɔɹmɪn", "m eh2 t f ao1 r m ih0 n"),
        ("ˈbʌtn̩", "b ah1 t ax0 n"),
        ("ˈhæpi", "hh ae1 p iy0"),
        ("duːpˈɪljuːmæb", "d uw0 p ih1 l y uw0 m ae0 b"),
        ("bax", "b aa1 k"),
        ("ʃɑ̃", "sh aa1"),
        ("fɑsɑd", "f aa1 s aa0 d"),
        ("s", "s"),
    ],
)
def test_ipa_becomes_phones(ipa: str, phones: str) -> None:
    assert " ".join(phones_of(ipa)) == phones


@pytest.mark.parametrize("ipa", ["", " ", "ˈ", "t☃", "5", "<b>"])
def test_what_is_no_ipa_is_refused(ipa: str) -> None:
    with pytest.raises(BadRequest):
        phones_of(ipa)


@given(st.text(alphabet="tʃdʒpɑɔəɜɹrɪeaʊoː̩̃ˈˌ. xçc̀", max_size=20))
def test_every_phone_is_one_that_voices_have(ipa: str) -> None:
    try:
        found = phones_of(ipa)
    except BadRequest:
        return
    assert all(phone.replace("2", "1") in SYMBOL_IDS for phone in found)


def test_the_voices_own_words_come_back_through_their_ipa(frontend: EnglishFrontend) -> None:
    """What the voice reads for a word is IPA of misaki's kind: it means the same phones."""
    for word in ("remember", "tomorrow", "judges", "enjoyable", "thousand", "leisure"):
        found = frontend.phones(word)
        span = found.phones[found.words[0].start : found.words[0].end]
        written = "".join(symbols_of(phone.symbol) for phone in span)
        again = "".join(symbols_of(phone) for phone in phones_of(written))
        assert again == written.translate(_SHARED)
