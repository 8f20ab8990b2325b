"""Titles in two dimensions: by principal components, or by UMAP where it is installed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dssm_tf.analysis.survey import plane
from dssm_tf.common.charts import point_map
from dssm_tf.common.errors import UserError, install
from dssm_tf.text.normalize import normalize

Array = NDArray[np.floating[Any]]
Method = Literal["pca", "umap"]

NONE = "no category"
_NEIGHBOURS = 15
_FEW = 3  # points that UMAP cannot lay out


def title_map(
    vectors: Array,
    titles: Sequence[str],
    method: Method = "pca",
    categories: Mapping[str, str] | None = None,
) -> str:
    """A map of titles as HTML, coloured by category where there is one.

    Args:
        vectors: of the titles, `(titles, dimension)`.
        titles: at least one.
        method: `pca`, or `umap`, which needs the extra `maps`.
        categories: of titles in their normal form.

    Raises:
        UserError: `umap` is not installed.
    """
    if method == "umap" and len(titles) > _FEW:
        points = umap_plane(vectors)
        how = "laid out by UMAP, whose distances mean little between groups"
    else:
        points, kept = plane(vectors)
        how = f"by their two principal components, which keep {100 * kept:.0f} % of the variance"
    kinds = [] if categories is None else [categories.get(normalize(one), NONE) for one in titles]
    return point_map(points, titles, f"{len(titles):,} titles {how}.", kinds)


def umap_plane(vectors: Array) -> NDArray[np.float64]:
    """Unit vectors in two dimensions by UMAP on their cosines, `(texts, 2)`; repeats with its seed.

    Raises:
        UserError: it is not installed.

    Reference: McInnes et al. 2018, "UMAP: Uniform Manifold Approximation and Projection".
    """
    try:
        from umap import UMAP
    except ImportError as error:
        raise UserError(
            f"--map umap needs umap-learn, which cannot be imported ({error}): {install('maps')}"
        ) from None
    neighbours = min(_NEIGHBOURS, len(vectors) - 1)
    made = UMAP(n_neighbors=neighbours, metric="cosine", random_state=0, n_jobs=1)
    return np.asarray(made.fit_transform(np.asarray(vectors, np.float32)), np.float64)
