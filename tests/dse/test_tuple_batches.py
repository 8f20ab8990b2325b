"""Training tuples (query, relevant title, irrelevant title), sampled from links."""

from itertools import islice

import numpy as np
import pytest
from scipy import sparse

from dssm_tf.common.errors import UserError
from dssm_tf.dse.tuple_batches import TupleBatches
from examples.dse_cora import same_class
from examples.dse_protocol import split_links
from examples.dse_wikispeedia import link_matrix

LABELS = ["a", "b", "a", "b", "a"]


def test_a_batch_s_tuples_have_a_relevant_and_an_irrelevant_title():
    relevant = same_class(LABELS)
    train, _ = split_links(relevant, 0.5, seed=0)
    for batch in islice(TupleBatches(train, relevant, batch_size=4), 20):
        assert train.toarray()[batch.queries, batch.titles].all()
        expected = ~relevant.toarray()[batch.queries][:, batch.titles]
        expected &= batch.queries[:, None] != batch.titles
        assert (batch.is_irrelevant == expected).all()


def test_every_link_is_sampled_once_before_any_repeats():
    links = link_matrix(list("uvwxyz"), [("u", "v"), ("w", "x"), ("y", "z")])
    batches = list(islice(TupleBatches(links, links, batch_size=3), 2))
    sampled = [(int(q), int(t)) for b in batches for q, t in zip(b.queries, b.titles, strict=True)]
    assert len(set(sampled)) == len(sampled) == links.nnz == 6


def test_links_are_sampled_in_proportion_to_their_weights():
    links = sparse.csr_matrix(np.eye(20, dtype=bool))
    weights = np.array([8.0, 1.0, 1.0, *[0.0] * 17])
    batches = TupleBatches(links, links, weights=weights)
    sampled = np.concatenate([batch.queries for batch in islice(batches, 300)])
    frequency = np.bincount(sampled, minlength=20) / len(sampled)
    np.testing.assert_allclose(frequency[:4], [0.8, 0.1, 0.1, 0], atol=0.03)


def test_links_without_any_tuple_are_rejected():
    # The second title is irrelevant to both queries, but no link leads to it.
    one_title = sparse.csr_matrix(np.array([[True, False], [True, False]]))
    # Pages 0 and 1 link to each other, because the matrix is symmetric. Page 2 has no link, and a
    # page is never irrelevant to itself.
    two_linked_pages = link_matrix(["0", "1", "2"], [("0", "1")])
    all_relevant = sparse.csr_matrix(np.ones((2, 2), bool))
    for links in (one_title, two_linked_pages, all_relevant):
        with pytest.raises(UserError, match="every linked title is relevant to every linked query"):
            next(iter(TupleBatches(links, links)))
    two_links = sparse.csr_matrix(np.array([[True, False, False], [False, True, False]]))
    assert next(iter(TupleBatches(two_links, two_links))).is_irrelevant.any()
    with pytest.raises(UserError, match="no link to train on"):
        TupleBatches(sparse.csr_matrix((3, 3), dtype=bool), two_links)
