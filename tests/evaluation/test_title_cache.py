from dssm_tf.evaluation.title_cache import LISTS, TitleCache


class Counted:
    """Says how many titles it was given, and remembers that it was asked."""

    def __init__(self):
        self.asked = []

    def __call__(self, titles):
        self.asked.append(titles)
        return len(titles)


def test_the_same_titles_are_computed_once_in_any_kind_of_list():
    cache, lengths = TitleCache(), Counted()
    titles = ("a", "b")
    assert [cache.get(t, lengths) for t in (titles, titles, ["a", "b"], ("a", "b"))] == [2] * 4
    assert lengths.asked == [titles]


def test_a_list_changed_in_place_is_computed_again():
    cache, titles = TitleCache(), ["a", "b"]
    cache.get(titles, " ".join)
    titles[0] = "c"
    assert cache.get(titles, " ".join) == "c b"


def test_the_oldest_lists_are_forgotten():
    cache, lengths = TitleCache(), Counted()
    lists = [("a",) * length for length in range(1, LISTS + 2)]
    for titles in (*lists, *lists[1:], lists[0]):
        cache.get(titles, lengths)
    assert lengths.asked == [*lists, lists[0]]
