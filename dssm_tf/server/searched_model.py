"""A served model with the titles it searches, from one version to the next."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence

from dssm_tf.common.errors import UserError
from dssm_tf.retrieval.searcher import Found, Searcher
from dssm_tf.retrieval.title_index import TitleIndex
from dssm_tf.server.models import Model, Version
from dssm_tf.server.served_model import ServedModel
from dssm_tf.tables.judgments import CorpusTitle

_LOG = logging.getLogger("dssm_tf.server")

Report = Callable[[str, float], None]


class SearchedModel:
    """Searches by the version of a model that answers.

    When another one takes over, its vectors are made first, and the search goes on with the old
    ones until they are.

    Args:
        model: whose vectors are searched.
        corpus: titles.
        index: of these titles, the first version's; versions with other vectors get one like it,
            in memory.
    """

    def __init__(
        self, model: Model, corpus: Sequence[CorpusTitle], index: TitleIndex | None = None
    ) -> None:
        self.model = model
        self.version: Version | None = None
        self.searcher: Searcher | None = None
        self._corpus = corpus
        self._index = index
        self._searching = threading.Lock()
        self._preparing = threading.Lock()

    def prepare(self, report: Report = lambda step, share: None) -> None:
        """Makes the vectors of the version that answers now.

        Args:
            report: see `TitleIndex.build`.

        Raises:
            UserError: the model cannot search this corpus, or the index is of another model.
        """
        version = self.model.current
        if version is None:
            raise UserError(f"no version of {self.model.name} answers.")
        ranker = ServedModel(version)
        self.searcher = Searcher(ranker, self._index_of(ranker, report))
        self.version = version

    def search(self, query: str, k: int) -> tuple[Searcher, dict[str, Found]] | None:
        """Finds titles, see `Searcher.search`; None where nothing is prepared yet."""
        self._follow()
        if (searcher := self.searcher) is None:
            return None
        with self._searching:
            return searcher, searcher.search(query, k)

    def _follow(self) -> None:
        """Prepares a newer version aside, once."""
        if self.model.current is self.version or not self._preparing.acquire(blocking=False):
            return

        def prepare() -> None:
            try:
                self.prepare()
            except Exception as error:
                _LOG.error("the page goes on with the version before: %s", error)
                self.version = self.model.current
            finally:
                self._preparing.release()

        threading.Thread(target=prepare, daemon=True).start()

    def _index_of(self, ranker: ServedModel, report: Report) -> TitleIndex:
        if self._index is not None:
            try:
                self._index.check_model(ranker)
            except UserError:
                if self.searcher is None:
                    raise
            else:
                return self._index
        settings = self._index.settings if self._index else None
        return TitleIndex.build(ranker, self._corpus, settings, report)
