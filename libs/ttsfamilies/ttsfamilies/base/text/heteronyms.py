"""Words that dictionaries lack, and words of one spelling and several sounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from ttsfamilies.base.text.rules import collection, table

# Words that dictionaries of English lack or give in an English way, in this frontend's phones.
#
# Accents are gone when the lexicon is asked, and tell most of them from no other word. Those that
# they do tell from another are read as the word beside them.


ACCENTED: Final = table(
    """
    pâté: patay, rosé: rozay, exposé: expozay, exposés: expozays, lamé: lamay, maté: matay,
    olé: olay, saké: sakay, piqué: peekay, risqué: riskay, divorcé: divorsay, divorcée: divorsay,
    attaché: attashay, canapé: canapay, canapés: canapays, touché: tooshay, outré: ootray,
    coupé: coopay, señor: senyor, señora: senyora, piñata: pinyata, jalapeño: halapenyo,
    jalapeños: halapenyos, façade: fasahd, soupçon: soopsohn, garçon: garsohn, père: pair
    """
)
"""Accented words in small letters, and what is read for them."""
PHONES: Final = table(
    """
    beyonce: b iy0 y aa1 n s ey0, mbappe: eh0 m b ae1 p ey0, kylian: k ih1 l iy0 ax0 n,
    deja: d ey0 zh aa1, timothee: t ih1 m ax0 th iy0, chalamet: sh ae1 l ax0 m ey0, xi: sh iy1,
    goethe: g er1 t ax0, readme: r iy1 d m iy0, patay: p aa0 t ey1, rozay: r ow0 z ey1,
    expozay: eh0 k s p ow0 z ey1, expozays: eh0 k s p ow0 z ey1 z, lamay: l aa0 m ey1,
    matay: m aa1 t ey0, sakay: s aa1 k iy0, peekay: p iy0 k ey1, riskay: r ih0 s k ey1,
    divorsay: d ih0 v ao0 r s ey1, attashay: ae0 t ax0 sh ey1, canapay: k ae1 n ax0 p ey0,
    canapays: k ae1 n ax0 p ey0 z, tooshay: t uw0 sh ey1, ootray: uw0 t r ey1, coopay: k uw0 p ey1,
    senyor: s ey0 n y ao1 r, senyora: s ey0 n y ao1 r ax0, pinyata: p ih0 n y aa1 t ax0,
    halapenyo: hh aa0 l ax0 p ey1 n y ow0, halapenyos: hh aa0 l ax0 p ey1 n y ow0 z,
    fasahd: f ax0 s aa1 d, soopsohn: s uw0 p s ao1 n, garsohn: g aa0 r s ao1 n, xai: z ay1,
    rezumays: r eh1 z ax0 m ey0 z, fiancee: f iy0 aa1 n s ey0, creme: k r eh1 m,
    brulee: b r uw0 l ey1, souffle: s uw0 f l ey1, paulo: p aw1 l ow0, jose: hh ow0 z ey1,
    zurich: z uh1 r ih0 k, camus: k ae0 m uw1, proust: p r uw1 s t, bjork: b y er1 k,
    ngozi: eh0 ng g ow1 z iy0
    """
)
"""Phones with stress digits, by words in small letters without accents."""


# Words of one spelling and several sounds that the words near them decide.
#
# The choice looks at what stands before a word and at no more than two words behind it, so it can
# be made before a text is complete. Where nothing near decides, the lexicon's tagger does.


_BEHIND = 2
_BEFORE = 8
_PEOPLE = collection("i you we they who people")
_MODALS = collection(
    "to will would can could shall should may might must let's please don't didn't doesn't do does "
    "did not never cannot can't won't wouldn't couldn't shouldn't i'll you'll we'll they'll "
    "he'll she'll always often it'll"
)
_DETERMINERS = collection(
    "a an the this that these those my your his her its our their some any no every each one two "
    "three much many more most of in with for fresh new s 's another such what whose"
)
_OBJECTS = collection(
    "the a an this that these those my your his her its our their it them him us me you all many "
    "two three four five ten forty snow oil to in with at against into from on down up through off "
    "it's for"
)


class Heteronym(NamedTuple):
    """The readings of a word by name, and the words near it that call for one of them.

    near: within reach on either side; before, after: right beside it. verb, noun: names of the
    readings that its place in the sentence decides between, "" where it does not.
    """

    readings: Mapping[str, str]
    near: Mapping[str, frozenset[str]] = {}
    before: Mapping[str, frozenset[str]] = {}
    after: Mapping[str, frozenset[str]] = {}
    verb: str = ""
    noun: str = ""


def _stress(noun: str, verb: str, nouns: str = "") -> Heteronym:
    """A noun and a verb that differ in stress or in their last sound.

    nouns: words before it, beside determiners, that call for the noun.
    """
    before = {"noun": collection(nouns)} if nouns else {}
    return Heteronym({"noun": noun, "verb": verb}, before=before, verb="verb", noun="noun")


HETERONYMS: Mapping[str, Heteronym] = {
    "bass": Heteronym(
        {"music": "b ey1 s", "fish": "b ae1 s"},
        near={
            "fish": collection("fish fishing fished caught lake river sea striped largemouth boat"),
            "music": collection(
                "guitar guitars played play plays playing player drum drums sing sang singer tenor "
                "loud line music band clef voice baritone solo treble boost amp double"
            ),
        },
        after={"music": collection("down up")},
    ),
    "dove": Heteronym(
        {"dived": "d ow1 v", "bird": "d ah1 v"},
        before={"dived": collection("he she they i we it who then and"), "bird": _DETERMINERS},
        after={"dived": collection("into in under for off down headfirst from deep right")},
    ),
    "desert": _stress("d eh1 z er0 t", "d ax0 z er1 t"),
    "object": _stress("aa1 b jh ax0 k t", "ax0 b jh eh1 k t"),
    "produce": _stress(
        "p r ow1 d uw2 s", "p r ax0 d uw1 s", "local organic seasonal fresh farm garden sell sells"
    ),
    "suspect": _stress(
        "s ah1 s p eh2 k t", "s ax0 s p eh1 k t", "main prime chief only murder another likely"
    ),
    "row": Heteronym(
        {"line": "r ow1", "quarrel": "r aw1"},
        before={"quarrel": collection("furious blazing heated almighty terrible unholy")},
    ),
    "does": Heteronym(
        {"deer": "d ow1 z", "verb": "d ah1 z"},
        before={"deer": collection("the two three four several these those and")},
        after={"verb": collection("not it he she this that the one anyone it's")},
    ),
    "appropriate": Heteronym(
        {"adjective": "ax0 p r ow1 p r iy0 ax0 t", "verb": "ax0 p r ow1 p r iy0 ey2 t"},
        before={"verb": collection("to they we will would can could must should i you who")},
    ),
    "excuse": _stress("ih0 k s k y uw1 s", "ih0 k s k y uw1 z"),
    "house": _stress("hh aw1 s", "hh aw1 z"),
    "rebel": _stress("r eh1 b ex0 l", "r ax0 b eh1 l"),
    "conflict": _stress("k aa1 n f l ih2 k t", "k ax0 n f l ih1 k t"),
    "contract": _stress("k aa1 n t r ae2 k t", "k ax0 n t r ae1 k t"),
    "transport": _stress("t r ae1 n s p ao2 r t", "t r ae0 n s p ao1 r t"),
    "project": _stress("p r aa1 jh eh2 k t", "p r ax0 jh eh1 k t"),
    "permit": _stress("p er1 m ih0 t", "p er0 m ih1 t"),
    "graduate": _stress("g r ae1 jh ax0 w ax0 t", "g r ae1 jh uh0 ey2 t"),
    "associate": _stress("ax0 s ow1 s iy0 ax0 t", "ax0 s ow1 s iy0 ey2 t"),
    "wind": Heteronym(
        {"noun": "w ih1 n d", "verb": "w ay1 n d"},
        near={"verb": collection("clock watch yarn")},
        after={
            "verb": collection("up through down"),
            "noun": collection("blew blows turbine power speed farm energy"),
        },
    ),
    "close": Heteronym(
        {"near": "k l ow1 s", "shut": "k l ow1 z"},
        before={"shut": _PEOPLE | _MODALS, "near": collection("very so too stay get came is are")},
    ),
    "live": Heteronym(
        {"adjective": "l ay1 v", "verb": "l ih1 v"},
        near={
            "adjective": collection("broadcast concert stream streamed streaming performed show")
        },
        before={
            "verb": _PEOPLE | _MODALS,
            "adjective": collection("plays played playing perform performs sing sings sang"),
        },
    ),
    "minute": Heteronym(
        {"time": "m ih1 n ax0 t", "small": "m ay0 n uw1 t"},
        before={
            "time": collection("a one this last per any every each next the"),
            "small": collection("were are is very in so most"),
        },
        after={
            "small": collection(
                "traces details detail amount amounts differences particles quantities crack cracks"
            ),
            "time": collection("ago later or of"),
        },
    ),
    "wound": Heteronym(
        {"injury": "w uw1 n d", "turned": "w aw1 n d"},
        after={"turned": collection("up down through around the its his her along back tightly")},
        before={"injury": _DETERMINERS - {"that"} | collection("deep flesh open bullet to")},
    ),
    "tear": Heteronym(
        {"eye": "t ih1 r", "rip": "t eh1 r"},
        near={"rip": collection("shirt paper cloth fabric wear wall dress muscle apart jeans")},
        after={
            "rip": collection("down up out off it them into"),
            "eye": collection("rolled ran fell"),
        },
        before={"rip": _MODALS | _PEOPLE},
    ),
    "bow": Heteronym(
        {"bend": "b aw1", "ribbon": "b ow1"},
        near={
            "bend": collection("took takes take ship stern boat king queen audience head"),
            "ribbon": collection("arrow arrows hair tie violin ribbon wore shot cello"),
        },
        before={"bend": _MODALS},
    ),
    "resume": Heteronym(
        {"go on": "r ax0 z uw1 m", "paper": "r eh1 z ax0 m ey2"},
        before={
            "paper": collection("my your his her their our a the this s 's updated strong"),
            "go on": _MODALS,
        },
    ),
    "_resume": Heteronym({"paper": "r eh1 z ax0 m ey2"}),
    "_polish": Heteronym({"of Poland": "p ow1 l ih0 sh"}),
    "read": Heteronym(
        {"now": "r iy1 d", "past": "r eh1 d"},
        near={
            "past": collection("have has had haven't hasn't hadn't yesterday ago i've"),
            "now": collection("did do does didn't don't can could will would to you"),
        },
        before={
            "now": _MODALS | collection("and we they who people"),
            "past": collection("i have has had he she was were been be is are i've you've we've"),
        },
    ),
    "learned": Heteronym(
        {"verb": "l er1 n d", "wise": "l er1 n ih0 d"},
        after={
            "wise": collection("scholar professor man men judge friend counsel scholars society")
        },
    ),
    "blessed": Heteronym(
        {"verb": "b l eh1 s t", "holy": "b l eh1 s ih0 d"},
        after={"holy": collection("saint virgin thing are be mother day sacrament event trinity")},
        before={"verb": collection("he she i we they was were am been have has priest god")},
    ),
    "lead": Heteronym(
        {"metal": "l eh1 d", "guide": "l iy1 d"},
        after={
            "metal": collection("paint pipe pipes poisoning pencil acid free"),
            "guide": collection("the to singer role guitar us them him her me"),
        },
        near={"metal": collection("pipe pipes poisoned copper zinc tin roof toxic metal mercury")},
    ),
    "content": Heteronym(
        {"happy": "k ax0 n t eh1 n t", "matter": "k aa1 n t eh0 n t"},
        before={
            "happy": collection(
                "quite felt feel am is are was were be very so perfectly not seem seems seemed look"
            ),
            "matter": _DETERMINERS | collection("video web publish create digital"),
        },
    ),
    "deliberate": Heteronym(
        {"verb": "d ax0 l ih1 b er0 ey2 t", "adjective": "d ax0 l ih1 b er0 ax0 t"},
        before={
            "verb": _MODALS | _PEOPLE,
            "adjective": _DETERMINERS | collection("very was is were are"),
        },
    ),
}
"""Words with their readings, as phones with stress digits."""


def choose(words: Sequence[str], index: int) -> tuple[str, ...] | None:
    """Phones of `words[index]` where the words near it decide; None where they do not."""
    heteronym = HETERONYMS.get(words[index])
    if heteronym is None:
        return None
    reading = _reading(heteronym, words, index)
    return tuple(heteronym.readings[reading].split()) if reading else None


def _reading(heteronym: Heteronym, words: Sequence[str], index: int) -> str:
    if len(heteronym.readings) == 1:
        return next(iter(heteronym.readings))
    before = words[index - 1] if index else ""
    after = words[index + 1] if index + 1 < len(words) else ""
    for cues, word in ((heteronym.after, after), (heteronym.before, before)):
        for reading, called_by in cues.items():
            if word in called_by:
                return reading
    around = {*words[max(0, index - _BEFORE) : index], *words[index + 1 : index + 1 + _BEHIND]}
    for reading, called_by in heteronym.near.items():
        if not around.isdisjoint(called_by):
            return reading
    return _by_place(heteronym, before, after)


def _by_place(heteronym: Heteronym, before: str, after: str) -> str:
    """Noun or verb by what stands right beside it: "the object", "to object", "barns house it"."""
    if not heteronym.verb:
        return ""
    if before in _DETERMINERS:
        return heteronym.noun
    if before in _MODALS or before in _PEOPLE:
        return heteronym.verb
    plural = before.endswith("s") and not before.endswith("ss") and len(before) > 2
    leads = not before or plural
    return heteronym.verb if leads and after in _OBJECTS else ""
