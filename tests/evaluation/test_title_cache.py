from dssm_tf.evaluation.title_cache import TitleCache


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


def test_the_lists_used_longest_ago_are_forgotten():
    cache, lengths = TitleCache(limit=4), Counted()
    first, second, third = ("a", "b"), ("c", "d"), ("e",)
    for titles in (first, second, first, third):  # 5 titles: `second` has to go
        cache.get(titles, lengths)
    assert len(lengths.asked) == 3
    cache.get(first, lengths)
    assert len(lengths.asked) == 3
    cache.get(second, lengths)
    assert lengths.asked[3:] == [second]


def test_one_list_is_remembered_however_long_it_is():
    cache, lengths = TitleCache(limit=1), Counted()
    titles = ["a", "b", "c"]
    assert cache.get(titles, lengths) == cache.get(titles, lengths) == 3
    assert len(lengths.asked) == 1
