"""Texts that often break text code: one hypothesis strategy per kind of problem."""

from __future__ import annotations

from hypothesis import strategies as st

latin = st.text(st.sampled_from("abcdefghijklmnop qrstuvwxyzABC0123456789 "), max_size=20)
punctuation = st.text(st.sampled_from("ab#!-_'\"/\\.,;:+$%&()[]{}<>|^`~@?*="), max_size=12)
combining_marks = st.text(st.sampled_from("aeno\u0301\u0308\u0327\u0345\u20dd\u0338"), max_size=8)
dotted_i = st.text(st.sampled_from("iIİı\u0307jJ"), max_size=8)
final_sigma = st.text(st.sampled_from("ΣσςΟΔΌ '\u00ad"), max_size=8)
special_cases = st.text(st.sampled_from("ẞßǅǆŉﬁΐᾼKÅΩꭰᏸႠⴀ"), max_size=8)
lone_surrogates = st.text(st.characters(categories=["Cs"]) | st.just("a"), max_size=4)
right_to_left = st.text(
    st.sampled_from("שלוםعربية\u200f\u200e\u202b\u202c\u0640\u064b"), max_size=10
)
cjk = st.text(st.sampled_from("漢字かなカナ한국어、。「」ー\u3000ｱＡ１"), max_size=10)
composing = st.text(
    st.sampled_from("aかハウ가한ｶﾊ\u3099\u309aﾞﾟ\u1100\u1112\u1161\u1175\u11a8\u11c2\u200d "),
    max_size=14,
)
unspaced = st.text(
    st.sampled_from(
        "ab1é 東京都々〇𠮷かガｶﾞーﾊﾟ\u3099กไ\u0e48\u0e34ລ\u0ec9ខ\u17d2\u17b6မ\u103c\u103a한、␟\u200d๑"
    ),
    max_size=16,
)
syllables = st.lists(
    st.sampled_from(
        ["東京", "都", "ไทย", "ที่", "น้ำ", "ລາວ", "ខ្មែរ", "မြန်", "ｶﾞ", "カ゛", " ", "x", "7"]
    ),
    max_size=12,
).map("".join)
emoji = st.text(st.sampled_from("👍🏽👩\u200d💻❤\ufe0f🇩🇪🂡☃\U0001f9ff\ue000"), max_size=8)
control = st.text(st.sampled_from("a\0\x01\t\r\n\x0b\x1f\x7f\x80\x85\x9f"), max_size=8)
white_space = st.text(
    st.sampled_from("a \u00a0\u1680\u2003\u2028\u2029\u200b\u202f\u205f"), max_size=8
)
invisible = st.text(st.sampled_from("ab\u00ad\u200c\u200d\u2060\ufeff\ufe0f\U000e0041"), max_size=8)
# First and last code points of the UTF-8 lengths, and of blocks that Unicode treats specially.
boundaries = st.text(
    st.sampled_from("a\u07ff\u0800\ud7ff\ue000\ufdd0\ufffd\ufffe\uffff\U0001ffff\U0010ffff")
)
anything = st.text(max_size=20)
repeated_words = st.lists(st.sampled_from(["cat", "Cat", "dog", "été"]), max_size=12).map(" ".join)
long_words = st.builds(
    lambda letter, length, tail: letter * length + tail,
    st.sampled_from("aÄ漢ｶ👍\u0301\u0e01\u0e48"),
    st.sampled_from([3, 4, 5, 63, 64, 65, 10_000]),
    st.sampled_from(["", " b", "b", "-b"]),
)
empty = st.sampled_from(["", " ", "\0", "!?", "\u200d", "\ud800"])

KINDS = {
    "latin": latin,
    "punctuation": punctuation,
    "combining_marks": combining_marks,
    "composing": composing,
    "dotted_i": dotted_i,
    "final_sigma": final_sigma,
    "special_cases": special_cases,
    "lone_surrogates": lone_surrogates,
    "right_to_left": right_to_left,
    "cjk": cjk,
    "unspaced": unspaced,
    "syllables": syllables,
    "emoji": emoji,
    "control": control,
    "white_space": white_space,
    "invisible": invisible,
    "boundaries": boundaries,
    "anything": anything,
    "repeated_words": repeated_words,
    "long_words": long_words,
    "empty": empty,
}

texts = st.lists(st.one_of(*KINDS.values()), min_size=1, max_size=3).map(" ".join) | st.one_of(
    *KINDS.values()
)
"""Texts with one kind of problem, or with several."""

raw_bytes = st.binary(max_size=24) | st.builds(
    lambda start, bad, end: start.encode("utf-8", "surrogatepass") + bad + end.encode(),
    latin,
    st.sampled_from(
        [b"\xff", b"\xc3", b"\xe2\x82", b"\xf0\x9f\x91", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf5\x80"]
    ),
    latin,
)
"""Bytes, many of them invalid UTF-8: truncated, over-long, surrogates, out of range."""
