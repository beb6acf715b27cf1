"""One token without digits as spoken words: cases, compounds, abbreviations, acronyms."""

from __future__ import annotations

import re
from collections.abc import Callable

from ttsfamilies.base.text.numbers import is_roman
from ttsfamilies.base.text.rules import collection, table

TITLES = table(
    """
    Mr: mister, Mrs: missus, Ms: miz, Mx: mix, Prof: professor, Rev: reverend, Hon: honorable,
    Gen: general, Col: colonel, Capt: captain, Cpt: captain, Lt: lieutenant, Sgt: sergeant,
    Cmdr: commander, Maj: major, Adm: admiral, Gov: governor, Sen: senator, Rep: representative,
    Pres: president, Msgr: monsignor, Sr: senior, Jr: junior, Supt: superintendent
    """
)
# Said in full with or without a full stop behind them.
WORDS = table(
    """
    vs: versus, etc: etcetera, approx: approximately, w/o: without, b/c: because,
    &: and, e.g: for example, eg: for example, i.e: that is, ie: that is, cf: compare,
    viz: namely, et al: et al, a.k.a: also known as, aka: also known as,
    asap: as soon as possible, ASAP: as soon as possible, OK: okay, Ok: okay, ok: okay,
    PhD: p h d, Ph.D: p h d, ft: feet, btw: by the way, lol: l o l, imo: in my opinion,
    idk: i don't know, IDK: i don't know, tbh: to be honest, TBH: to be honest,
    brb: be right back, BRB: be right back, nvm: never mind, omw: on my way, thx: thanks,
    pls: please, plz: please, ppl: people, ttyl: talk to you later, irl: in real life,
    FYI: f y i, DIY: d i y, vol: volume, Vol: volume, TV: t v, PC: p c,
    WiFi: wifi, Wi-Fi: wifi, wi-fi: wifi, SQL: sequel, JPEG: jpeg, LaTeX: latek, macOS: mac o s,
    GIF: gif, PNG: p n g, IoT: i o t, iOS: i o s, nginx: engine x, GUI: gooey, JSON: json,
    YAML: yaml, kubectl: cube control, ChatGPT: chat g p t, api: _a p i, apis: _a p i 's,
    usb: u s b, url: u r l, urls: u r l 's, cpu: c p u, gpu: g p u, gui: gooey, ai: _a i,
    uk: u k, usa: u s _a, sql: sequel, html: h t m l, faq: f _a q, diy: d i y, ceo: c e o,
    eta: e t _a, ipo: i p o, omg: o m g, E.g: for example, I.e: that is,
    YoY: year over year, Ctrl: control, Cmd: command, NET: net, n/a: not applicable,
    N/A: not applicable, km/h: kilometers per hour, kmh: kilometers per hour, mph: miles per hour,
    m/s: meters per second, Tue: tuesday, Tues: tuesday, Thu: thursday, Thur: thursday,
    Thurs: thursday, JPG: jpeg, jpg: jpeg, tv: t v, CUDA: cuda, pm: p m,
    c/o: care of, A-Z: _a to z, a-z: _a to z, p.a: per annum
    """
)
# Said in full where marks that are dropped elsewhere belong to the name.
SYMBOLIC = table(
    """
    C++: c plus plus, c++: c plus plus, C#: c sharp, F#: f sharp, .NET: dot net, w/: with,
    W/: with, A+: _a plus, A-: _a minus, B+: b plus, B-: b minus, Google+: google plus
    """
)
WEEKDAYS = table(
    "Mon: monday, Tue: tuesday, Tues: tuesday, Wed: wednesday, Thu: thursday, Thur: thursday,"
    "Thurs: thursday, Fri: friday, Sat: saturday, Sun: sunday"
)
_SHORT_MONTHS = table(
    "Jan: january, Feb: february, Mar: march, Apr: april, Jun: june, Jul: july, Aug: august,"
    "Sep: september, Sept: september, Oct: october, Nov: november, Dec: december"
)
# Parts of compounds such as "Mon-Fri" and "Ctrl+C".
COMPOUND_PARTS = {
    **WEEKDAYS,
    **_SHORT_MONTHS,
    **table("Ctrl: control, Cmd: command, Alt: alt, Esc: escape"),
}
# Said in full only when a full stop follows, because the bare letters are words too.
DOTTED = {**WEEKDAYS, **_SHORT_MONTHS} | table(
    """
    No: number, no: number, Nos: numbers, Inc: incorporated, Corp: corporation, Ltd: limited,
    Co: company, Dept: department, dept: department, Est: established, est: estimated,
    Fig: figure, fig: figure, figs: figures, Sec: section, sec: section, ch: chapter,
    Ch: chapter, pp: pages, p: page, ed: edition, eds: editors, Ave: avenue, Blvd: boulevard,
    Rd: road, Ln: lane, Hwy: highway, Ct: court, Pl: place, Sq: square, Mt: mount, Ft: fort,
    Apt: apartment, Bldg: building, tel: telephone, Tel: telephone, max: maximum, min: minimum,
    avg: average, misc: miscellaneous, Ala: alabama,
    Ariz: arizona, Calif: california, Colo: colorado, Conn: connecticut, Fla: florida,
    Ill: illinois, Mass: massachusetts, Mich: michigan, Minn: minnesota, Okla: oklahoma,
    Tenn: tennessee, Tex: texas, Wash: washington, Wis: wisconsin, Univ: university,
    Assn: association, Bros: brothers, Gov: governor, incl: including, esp: especially,
    orig: originally, temp: temporary, ext: extension, Ext: extension, Eq: equation, eq: equation,
    Eqs: equations, Eqn: equation, Eqns: equations, Figs: figures, pcs: pieces, c: circa,
    ca: circa, Expy: expressway, Pkwy: parkway, Ste: suite, Rm: room, Fl: floor, Bldgs: buildings,
    mgr: manager, Mgr: manager, mfg: manufacturing, govt: government, Govt: government,
    intl: international, Intl: international, natl: national, qty: quantity, Qty: quantity,
    refs: references, resp: respectively, sch: school, subj: subject, wt: weight, ht: height,
    yr: year, yrs: years, hr: hour, hrs: hours, mins: minutes, secs: seconds, wk: week, mo: month,
    attn: attention, Attn: attention, cont: continued, encl: enclosed, Encl: enclosed,
    lbs: pounds, oz: ounces, tbsp: tablespoons, tsp: teaspoons, Ky: kentucky, Va: virginia,
    Ga: georgia, Pa: pennsylvania, Md: maryland, Del: delaware, Nev: nevada, Ore: oregon,
    Ind: indiana, Kan: kansas, Minn: minnesota, Mo: missouri, Ark: arkansas, ver: version
    """
)
# Those of DOTTED that end a sentence as often; they need a number or a capital behind them.
ALSO_WORDS = collection(
    """
    No no Sun Sat Mar Wed Fri Mon Jan p ed fig figs Ill Mass Wash Tex Ct Pl min max est temp
    ext sec Sec ch Ch Mt Sq pp misc c ca eq Fl mo sch subj wt ht cont Pa Ga Va Md Del Ind Kan Mo
    Ore Ark oz yr hr wk ver Ky Nev resp refs natl qty encl
    """
)
# These may end a sentence even where the next one begins with a small letter.
ENDING_SENTENCES = collection("no c ca p ed")
# A title before a name; behind one, a way.
SAINT_STREET = {"St": ("saint", "street"), "Dr": ("doctor", "drive")}
# Capitals that are words all the same, whatever their length.
SPOKEN = collection(
    """
    NASA NATO UNESCO UNICEF OPEC AIDS SARS COVID NAFTA FIFA UEFA NASDAQ FEMA OSHA SWAT SCUBA
    LASER RADAR ASCII RAM ROM LAN WAN SIM PIN ZIP CAPTCHA BIOS CERN ESA DARPA POTUS SCOTUS
    FLOTUS BASIC COBOL FORTRAN PASCAL LISP HIPAA DAX ASEAN GAAP CAD YOLO FOMO BAFTA NIMBY SONAR
    MIDI SATA CUDA NUMA SAT LLAMA BERT TIFF NAND MOSFET HEPA IKEA
    """
)
# Capitals that look like words and are spelled all the same.
SPELLED = collection("NAACP UNHCR AARP ACLU IEEE USSR EBITDA OECD CICD MOOC")
# Short capitals that are shouted words rather than acronyms.
SHOUTED = collection(
    """
    A AGE AGO AIR AM AN AND ANY ARE ART AS ASK AT BAD BAG BAR BE BED BIG BIT BOX BOY BUG BUS BUT
    BUY BY CAN CAR CAT CON CRY CUP CUT DAD DAY DID DIE DO DOG DON'T DRY EAR EAT EGG END EYE FAR
    FAT FEE FEW FIT FIX FLY FOR FOX FREE FUN GAS GET GO GOD GOT GUN GUY HAD HAS HAT HE HER HEY
    HI HIM HIP HIS HIT HOT HOW HUG I ICE IF IN INK IS ITS JAM JOB JOY KEY KID LAW LED LEG LET
    LIE LOG LOT LOW MAD MAN MAP MAY ME MEN MOM MUD MY NEW NO NOR NOT NOW NUT ODD OF OFF OH OIL
    OLD ON ONE OPEN OR OUR OUT OWE OWN PAN PAY PEN PER PIE PIG POP POT PRO PUT RAT RAW RED ROW
    RUB RUN SAD SALE SAY SEA SEE SET SEX SHE SHY SIT SIX SKI SKY SO SON STOP SUM SUN TAX TEA TEN
    THE THY TIE TIP TO TOO TOP TOY TRY TWO UP USE VAN VIA WAR WAS WAX WAY WE WED WET WHO WHY WIN
    WON YES YET YOU ZOO
    """
)
# Without vowels, and yet said as words.
SOUNDS = collection("hmm hm mm mmm shh psst pfft brr grr tsk zzz nth rhythm cwm crwth")
KINGS = collection(
    """
    sam robert harry stephen anne margaret isabella constantine theodore umberto leonidas darius
    ramses ramesses cleopatra xerxes edmund baldwin boniface urban sixtus adrian celestine callixtus
    martin eugene alexios basil justinian theodosius franz wilhelm joseph maximilian rudolf
    sigismund ludwig ernst august augustus willem karl carl olaf magnus eric canute valdemar casimir
    vladislav thomas walter arthur alfred
    louis henry charles philip george edward pius william richard ptolemy john paul peter
    nicholas frederick james alfonso ivan napoleon leo gregory catherine alexander pierre
    elizabeth mary benedict innocent clement francis ferdinand otto leopold victor  christian
    gustav haakon harald juan felipe pedro
    """
)
RULERS = collection(
    """
    king queen pope duke tsar czar emperor shah caesar duchess empress baron baroness sultan
    count countess prince princess
    """
)
SECTIONS = collection(
    """
    fantasy vol section chapter part phase verse scene act book volume war stage level
    article appendix
    title figure table division apollo bowl rocky episode season mark  annex type class group grade
    tier category schedule model round series section factor clause exhibit paragraph unit step
    module lesson note rule option plan zone region generation gen version edition i
    """
)


# One token without digits as spoken words: case, contractions, compounds, acronyms.


_PARTS = re.compile(r"[A-Za-z']+|[^A-Za-z']+")
_HUMPS = re.compile(
    r"[A-Z]{2,}s?(?![A-Za-z])|Ma?c[A-Z][a-z]+|[A-Z]{2,}(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+"
)
_DOTTED_LETTERS = re.compile(r"((?:[A-Za-z]\.){1,10}[A-Za-z]?)('s)?")
_ENDING = re.compile(r"'(?:s|ll|ve|d)$")
_REPEATED = re.compile(r"([a-z])\1{2,}")
_SYMBOL_NAMES = {"&": "and", "@": "at", "+": "plus", "=": "equals", "%": "percent", ".": "dot"}
_VOWEL = re.compile(r"[aeiouy]")
_UNSPEAKABLE = re.compile(r"[^aeiouy]{5}|^[^aeiouy]{4}")
_SYLLABLES = re.compile(r"[^aeiouy][aeiouy][^aeiouy]{1,2}(?:[aeiouy][^aeiouy]?)?")
_LONGEST_WORD = 60
_MOST_ENDINGS = 2
# Pairs that are said without the slash between them.
_PAIRS = collection(
    """
    and/or either/or he/she she/he his/her her/his him/her s/he she/her he/him they/them yes/no
    true/false on/off pass/fail read/write input/output client/server
    """
)
_LONGEST_PAIR = max(map(len, _PAIRS))
_INITIALS_PAIR = re.compile(r"[A-Z]{1,4}/[A-Z]{1,4}")


def letter(char: str) -> str:
    """The lexicon's word for a letter's name."""
    return "_a" if char in "aA" else char.lower()


def spell(text: str) -> list[str]:
    """The names of all letters in a text."""
    return [letter(char) for char in text if char.isalpha()]


class WordReader:
    """Turns written words into the lower-case words of the lexicon."""

    def __init__(self, knows: Callable[[str], bool]) -> None:
        self._knows = knows

    def read(self, core: str, shouting: bool = False) -> list[str]:
        """Spoken words of a token stripped of outer punctuation, in a shouted text or not."""
        short = WORDS.get(core)
        if short is not None:
            return short.split()
        if core.isalpha() and core.islower() and len(core) > 1 and self._knows(core):
            return [core]
        dotted = _DOTTED_LETTERS.fullmatch(core)
        if dotted is not None and len(core) > 2:
            return [*spell(dotted[1]), *(("'s",) if dotted[2] else ())]
        if "." in core and "-" in core:
            return [word for part in core.split("-") if part for word in self.read(part, shouting)]
        words: list[str] = []
        for part in _PARTS.findall(core):
            if part in COMPOUND_PARTS and part != core:
                words.append(COMPOUND_PARTS[part])
            elif part[0].isalpha() or part[0] == "'":
                words += self._contraction(part.strip("'"), shouting)
            elif part == "/":
                words += [] if _paired(core) else ["slash"]
            else:
                words += [name for name in map(_SYMBOL_NAMES.get, part) if name]
        return words

    def _contraction(self, text: str, shouting: bool) -> list[str]:
        """flite's way: "'s" and its like are words of their own, other apostrophes vanish."""
        endings: list[str] = []
        while "'" in text and not self._knows(text.lower()):
            ending = _ENDING.search(text.lower())
            if ending is None or len(endings) == _MOST_ENDINGS:
                text = _without_apostrophes(text)
            else:
                endings.append(ending[0])
                text = text[: ending.start()]
        if "'" in text:
            return [text.lower(), *reversed(endings)]
        return [*(self._case(text, shouting) if text else ()), *reversed(endings)]

    def _case(self, text: str, shouting: bool) -> list[str]:
        lower = text.lower()
        if len(text) == 1:
            return ["a"] if text == "a" else [letter(text)]
        if text.isupper():
            return [lower] if shouting and self._knows(lower) else self._capitals(text)
        if text[1:].islower() or self._knows(lower):
            return self._plain(lower)
        words: list[str] = []
        for hump in _HUMPS.findall(text):
            if len(hump) > 2 and hump[-1] == "s" and hump[:-1].isupper():
                words += [*self._capitals(hump[:-1]), "'s"]
            elif hump.isupper():
                words += self._capitals(hump) if len(hump) > 1 else [letter(hump)]
            else:
                words += self._plain(hump.lower())
        return words

    def _capitals(self, text: str) -> list[str]:
        lower = text.lower()
        if text in SPOKEN or text in SHOUTED:
            return [lower]
        if text in SPELLED or is_roman(text):
            return spell(text)
        if len(text) > 3 and self._knows(lower):
            return [lower]
        wordlike = speakable(lower) if len(text) > 4 else _SYLLABLES.fullmatch(lower)
        return [lower] if len(text) > 3 and wordlike else spell(text)

    def _is_word(self, lower: str) -> bool:
        return self._knows(lower) or lower in SOUNDS

    def _plain(self, lower: str) -> list[str]:
        if len(lower) == 1:
            return [letter(lower)]
        if self._is_word(lower):
            return [lower]
        for keep in (r"\1\1", r"\1"):
            shortened = _REPEATED.sub(keep, lower)
            if shortened != lower and self._is_word(shortened):
                return [shortened]
        lower = _REPEATED.sub(r"\1\1", lower)
        if len(lower) > _LONGEST_WORD:
            return [lower[i : i + 20] for i in range(0, len(lower), 20)]
        return [lower] if speakable(lower) else spell(lower)


def _paired(core: str) -> bool:
    return len(core) <= _LONGEST_PAIR and (
        core.lower() in _PAIRS or _INITIALS_PAIR.fullmatch(core) is not None
    )


def _without_apostrophes(text: str) -> str:
    """The lexicon has "dont" for "don't"; the capital in "O'Neil" begins no new word."""
    return text.replace("'", "") if text.isupper() else text.replace("'", "").capitalize()


def speakable(lower: str) -> bool:
    """Whether a lower-case string can be said as a word rather than spelled."""
    return _VOWEL.search(lower) is not None and (
        len(lower) > 7 or _UNSPEAKABLE.search(lower) is None
    )
