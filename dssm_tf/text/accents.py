"""Letters without accents, frozen as `character_rules` is: `leixões` and `leixoes` are one word.

Per character and without context, after lower case:

*   marks that a script's own readers leave out are deleted: the combining diacritics of Latin,
    Greek and Cyrillic, Hebrew points and Arabic vowel signs;
*   a letter that Unicode decomposes into another and such marks becomes the other: `õ` is `o`, `ά`
    is `α`, `ё` is `е`, and so is `й` `и`;
*   so does a Latin letter that is named after another, such as `ø`, "o with stroke", or `ł`;
*   a few are spelled out: `ß` is `ss`, `æ` is `ae`, `þ` is `th`.

Composed and decomposed texts of these scripts then have the same words. All other marks stay, since
a word is another one without them, or none: the vowel signs of Devanagari, Thai and their
neighbours, the voicing of kana, Hangul jamo, the hamza and madda of Arabic letters. German `ü` is
`u`, not `ue`: nothing in a text says which language it is.

From Unicode 14.0; `python -m tests.reference.character_rules accents` derives the tables again.
"""

from __future__ import annotations

# Inclusive ranges of code points.
MARKS: tuple[tuple[int, int], ...] = (
    (0x300, 0x36F),
    (0x483, 0x487),
    (0x591, 0x5BD),
    (0x5BF, 0x5BF),
    (0x5C1, 0x5C2),
    (0x5C4, 0x5C5),
    (0x5C7, 0x5C7),
    (0x64B, 0x652),
    (0x670, 0x670),
    (0x1AB0, 0x1ACE),
    (0x1DC0, 0x1DFF),
    (0xFE20, 0xFE2F),
)

# By what they become: lower-case letters.
LETTERS: dict[str, str] = {
    "a": "àáâãäåāăąǎǟǡǻȁȃȧᶏḁẚạảấầẩẫậắằẳẵặⱥ",
    "ae": "æǣǽ",
    "b": "ƀƃɓᵬᶀḃḅḇꞗ",
    "c": "çćĉċčƈȼɕḉꞓꞔ",
    "d": "ðďđƌȡɖɗᵭᶁᶑḋḍḏḑḓꟈ",
    "dz": "ǆǳ",
    "e": "èéêëēĕėęěȅȇȩɇᶒḕḗḙḛḝẹẻẽếềểễệⱸꬴ",
    "f": "ƒᵮᶂḟꞙ",
    "g": "ĝğġģǥǧǵɠᶃḡꞡ",
    "h": "ĥħȟɦḣḥḧḩḫẖⱨꞕ",
    "i": "ìíîïĩīĭįıǐȉȋɨᶖḭḯỉị",
    "ij": "ĳ",
    "j": "ĵǰȷɉʝ",
    "k": "ķƙǩᶄḱḳḵⱪꝁꝃꝅꞣ",
    "l": "ĺļľŀłƚȴɫɬɭᶅḷḹḻḽⱡꝉꞎꬷꬸꬹ",
    "lj": "ǉ",
    "m": "ɱᵯᶆḿṁṃꬺ",
    "n": "ñńņňŉŋƞǹȵɲɳᵰᶇṅṇṉṋꞑꞥꬻ",
    "nj": "ǌ",
    "o": "òóôõöøōŏőơǒǫǭǿȍȏȫȭȯȱṍṏṑṓọỏốồổỗộớờởỡợⱺꝋꝍ",
    "oe": "œ",
    "p": "ƥᵱᵽᶈṕṗꝑꝓꝕ",
    "q": "ĸɋʠꝗꝙ",
    "r": "ŕŗřȑȓɍɼɽɾᵲᵳᶉṙṛṝṟꞧꭉ",
    "s": "śŝşšſșȿʂᵴᶊṡṣṥṧṩẛꞩꟊ",
    "ss": "ß",
    "t": "ţťŧƫƭțȶʈᵵṫṭṯṱẗⱦ",
    "th": "þ",
    "u": "ùúûüũūŭůűųưǔǖǘǚǜȕȗᶙṳṵṷṹṻụủứừửữựꞹꭎꭒ",
    "v": "ʋᶌṽṿⱱⱴꝟ",
    "w": "ŵẁẃẅẇẉẘⱳ",
    "x": "ᶍẋẍꭖꭗꭘꭙ",
    "y": "ýÿŷƴȳɏẏẙỳỵỷỹỿꭚ",
    "z": "źżžƶȥɀʐʑᵶᶎẑẓẕⱬ",
    "ʒ": "ǯ",
    "α": "άἀἁἂἃἄἅἆἇὰάᾀᾁᾂᾃᾄᾅᾆᾇᾰᾱᾲᾳᾴᾶᾷ",
    "ε": "έἐἑἒἓἔἕὲέ",
    "η": "ήἠἡἢἣἤἥἦἧὴήᾐᾑᾒᾓᾔᾕᾖᾗῂῃῄῆῇ",
    "ι": "ΐίϊἰἱἲἳἴἵἶἷὶίῐῑῒΐῖῗ",
    "ο": "όὀὁὂὃὄὅὸό",
    "ρ": "ῤῥ",
    "υ": "ΰϋύὐὑὒὓὔὕὖὗὺύῠῡῢΰῦῧ",
    "ω": "ώὠὡὢὣὤὥὦὧὼώᾠᾡᾢᾣᾤᾥᾦᾧῲῳῴῶῷ",
    "ϒ": "ϓϔ",
    "а": "ӑӓ",
    "г": "ѓ",
    "е": "ѐёӗ",
    "ж": "ӂӝ",
    "з": "ӟ",
    "и": "йѝӣӥ",
    "к": "ќ",
    "о": "ӧ",
    "у": "ўӯӱӳ",
    "ч": "ӵ",
    "ы": "ӹ",
    "э": "ӭ",
    "і": "ї",
    "ѵ": "ѷ",
    "ә": "ӛ",
    "ө": "ӫ",
    "\u05d0": "\ufb2e\ufb2f\ufb30",
    "\u05d1": "\ufb31\ufb4c",
    "\u05d2": "\ufb32",
    "\u05d3": "\ufb33",
    "\u05d4": "\ufb34",
    "\u05d5": "\ufb35\ufb4b",
    "\u05d6": "\ufb36",
    "\u05d8": "\ufb38",
    "\u05d9": "\ufb1d\ufb39",
    "\u05da": "\ufb3a",
    "\u05db": "\ufb3b\ufb4d",
    "\u05dc": "\ufb3c",
    "\u05de": "\ufb3e",
    "\u05e0": "\ufb40",
    "\u05e1": "\ufb41",
    "\u05e3": "\ufb43",
    "\u05e4": "\ufb44\ufb4e",
    "\u05e6": "\ufb46",
    "\u05e7": "\ufb47",
    "\u05e8": "\ufb48",
    "\u05e9": "\ufb2a\ufb2b\ufb2c\ufb2d\ufb49",
    "\u05ea": "\ufb4a",
    "\u05f2": "\ufb1f",
}


def folded() -> dict[int, str]:
    """What each lower-case letter with an accent becomes, one letter or two; marks nothing."""
    found = {ord(letter): base for base, letters in LETTERS.items() for letter in letters}
    for first, last in MARKS:
        found.update(dict.fromkeys(range(first, last + 1), ""))
    return found
