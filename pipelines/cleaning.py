"""What is no evidence of relevance and leaves the log: bots, spam, repeats, blocked queries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from dssm_tf.positions.curve import UNIT
from dssm_tf.tables.click_log import LogRow
from dssm_tf.text.rules import Key, Rules

NO_WORDS = "no words"
BLOCKED = "blocked"
NO_CLICK = "no click"
MANY_QUERIES = "session with many queries"
MANY_CLICKS = "session with many clicks"
REPEATED = "repeated in session"
FEW_CLICKS = "few clicks"


@lru_cache(maxsize=1 << 17)
def normal_form(text: str, rules: Rules) -> Key:
    """The key of a text, remembered."""
    return rules.key(text)


PairCount = tuple[str, str, str, str, int, int, int]
"""What some rows say of one (query, title): both normalised, both as logged, clicks, rows, and
weighted clicks in thousandths.

No rows at all means that only dropped sessions clicked the title: it is no evidence, but it must
not become a negative either.
"""


@dataclass(frozen=True)
class BlockList:
    """Words and whole queries to drop.

    Args:
        rules: of the log's texts.
        words: a query that holds one of them is dropped.
        queries: normalised; a query that equals one is dropped.
    """

    rules: Rules
    words: frozenset[str] = frozenset()
    queries: frozenset[str] = frozenset()

    @classmethod
    def parse(cls, text: str, rules: Rules) -> BlockList:
        """From a file's lines: `word`, `several words`, `=word` and `# comment`."""
        single, whole = set(), set()
        for line in text.splitlines():
            entry = line.strip()
            found = rules.words(entry)
            if not found or entry.startswith("#"):
                continue
            if len(found) == 1 and not entry.startswith("="):
                single.update(found)
            else:
                whole.add(" ".join(found))
        return cls(rules, frozenset(single), frozenset(whole))

    def blocks(self, query: str) -> bool:
        """Whether a normalised query is to be dropped."""
        return query in self.queries or not self.words.isdisjoint(query.split(" "))


@dataclass
class RowCounter:
    """Sums rows by their texts as logged: what a worker holds of a piece, in bounded size.

    `pairs` holds `[clicks, rows, weighted]` by (query, title), of rows without a session;
    `sessions` holds `[clicks of the row with most, rows, its weighted clicks, clicks, clicked
    rows]` by session and (query, title), since a click repeated in a session is to count once.

    Args:
        weights: what a click at positions 1, 2, ... counts, in thousandths; those behind have the
            last one, and a click whose position is unknown, or all if none are given, counts once.
    """

    weights: Sequence[int] = ()
    pairs: dict[tuple[str, str], list[int]] = field(default_factory=dict)
    sessions: dict[str, dict[tuple[str, str], list[int]]] = field(default_factory=dict)
    size: int = 0

    def add(self, row: LogRow) -> None:
        """Counts one row."""
        query, title, clicks, _, session, _, position = row
        weight = UNIT
        if position and self.weights:
            weight = self.weights[min(position, len(self.weights)) - 1]
        weighted = clicks * weight
        if session:
            self._add_to_session(query, title, clicks, weighted, session)
            return
        count = self.pairs.get((query, title))
        if count is None:
            self.pairs[query, title] = [clicks, 1, weighted]
            self.size += 1
        else:
            count[0] += clicks
            count[1] += 1
            count[2] += weighted

    def _add_to_session(
        self, query: str, title: str, clicks: int, weighted: int, session: str
    ) -> None:
        pairs = self.sessions.setdefault(session, {})
        count = pairs.get((query, title))
        new = [clicks, 1, weighted, clicks, 1 if clicks else 0]
        if count is None:
            pairs[query, title] = new
            self.size += 1
        else:
            count[:] = _joined(count, new)


def clean_pairs(
    pairs: Iterable[tuple[tuple[str, str], list[int]]],
    block_list: BlockList,
    dropped: Counter[str],
) -> Iterator[PairCount]:
    """Normalises counted texts and drops what has no words or is blocked.

    Args:
        pairs: ((query, title), [clicks, rows, weighted]) with the texts as logged.
        block_list: what to drop, and the text rules.
        dropped: rows dropped, by reason; added to.
    """
    rules = block_list.rules
    for (query_text, title_text), (clicks, rows, weighted) in pairs:
        query, title = normal_form(query_text, rules), normal_form(title_text, rules)
        if not query or not title:
            dropped[NO_WORDS] += rows
        elif block_list.blocks(query):
            dropped[BLOCKED] += rows
        else:
            yield query, title, query_text, title_text, clicks, rows, weighted


def clean_session(
    blocks: Iterable[dict[tuple[str, str], list[int]]],
    max_queries: int,
    max_clicks: int,
    dropped: Counter[str],
    rules: Rules,
) -> list[tuple[tuple[str, str], list[int]]]:
    """One session's pairs, each counted once.

    Of a session that looks like a machine's, the clicked pairs with no rows, see `PairCount`.

    Args:
        blocks: the session's counts, as `RowCounter.sessions` holds them.
        max_queries: distinct queries beyond which the session is a bot's; 0 means no limit.
        max_clicks: clicks, repeats included, beyond which it is spam; 0 means no limit.
        dropped: rows dropped, by reason; added to.
        rules: which texts are one.
    """
    best: dict[tuple[str, str], tuple[tuple[str, str], list[int]]] = {}
    for block in blocks:
        for texts, count in block.items():
            key = normal_form(texts[0], rules), normal_form(texts[1], rules)
            known = best.get(key)
            if known is None:
                best[key] = texts, list(count)
                continue
            kept, total = known
            if (-count[0], texts) < (-total[0], kept):
                kept = texts
            best[key] = kept, _joined(total, count)
    counts = [count for _, count in best.values()]
    reason = None
    if max_queries and len({query for query, _ in best}) > max_queries:
        reason = MANY_QUERIES
    elif max_clicks and sum(count[3] for count in counts) > max_clicks:
        reason = MANY_CLICKS
    if reason:
        dropped[reason] += sum(count[1] for count in counts)
        return [(texts, [count[0], 0, count[2]]) for texts, count in best.values() if count[0]]
    pairs = []
    for texts, (clicks, rows, weighted, _, clicked_rows) in best.values():
        repeats = max(clicked_rows - 1, 0)
        if repeats:
            dropped[REPEATED] += repeats
        pairs.append((texts, [clicks, rows - repeats, weighted]))
    return pairs


def _joined(one: Sequence[int], other: Sequence[int]) -> list[int]:
    """Two counts of a session's pair, see `RowCounter`, as one."""
    clicks, weighted = max((one[0], one[2]), (other[0], other[2]))
    rows, all_clicks, clicked_rows = (one[at] + other[at] for at in (1, 3, 4))
    return [clicks, rows, weighted, all_clicks, clicked_rows]
