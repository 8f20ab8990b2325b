"""A small click log with queries and titles, and hypothesis strategies for texts of few words."""

from hypothesis import strategies as st

TITLES = [
    "Halo: Reach",
    "Halo 3 ODST",
    "Call of Duty: Black Ops",
    "Duty Calls",
    "Mario Kart Wii",
    "Super Mario Galaxy 2",
    "Wii Fit Plus",
    "New Super Mario Bros",
]
CLICKS = [
    ("halo", "Halo: Reach", 5.0),
    ("halo 3", "Halo 3 ODST", 3.0),
    ("cod black ops", "Call of Duty: Black Ops", 4.0),
    ("mario wii", "Mario Kart Wii", 2.0),
    ("super mario", "New Super Mario Bros", 2.0),
    ("wii fitness", "Wii Fit Plus", 1.0),
]
QUERIES = ["halo", "Mario mario Wii!", "duty halo unseen", "wii 2", "", "unseen", "?!"]
OTHERS = ["Halo Wars", "", "unseen words only", "halo: REACH"]

WORD = st.sampled_from(["red", "blue", "hat", "box", "7"])
TEXT = st.lists(WORD, min_size=1, max_size=8)
CORPUS = st.lists(TEXT, min_size=1, max_size=8)


def joined(texts):
    """Joins the words of each text."""
    return [" ".join(text) for text in texts]
