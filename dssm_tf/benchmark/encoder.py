"""Encoders off the shelf: what sentence-transformers loads, ranked by the cosine."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

from dssm_tf.common.errors import UserError, install
from dssm_tf.evaluation.by_cosine import ByCosine


def check_encoder(model: str) -> None:
    """Refuses what cannot be loaded, as far as it shows without loading.

    Args:
        model: a directory, or a name on the model hub.

    Raises:
        UserError: sentence-transformers is not installed, or there is no such directory.
    """
    if find_spec("sentence_transformers") is None:
        raise UserError(
            f"--encoder {model}: sentence-transformers is not installed; {install('encoders')}"
        )
    path = Path(model)
    if not path.is_dir() and (path.is_absolute() or model.startswith(".") or len(path.parts) > 2):
        raise UserError(
            f"--encoder {model}: there is no such directory; expected one that "
            "`SentenceTransformer.save` wrote, or the name of a model, such as owner/model."
        )


def load_encoder(name: str, model: str) -> tuple[ByCosine, dict[str, float]]:
    """Loads an encoder onto the processor.

    Args:
        name: what tables call it.
        model: see `check_encoder`.

    Returns:
        What ranks by it, and its costs: how many numbers it learned, and their megabytes.

    Raises:
        UserError: it cannot be loaded.
    """
    check_encoder(model)
    from sentence_transformers import SentenceTransformer

    try:
        transformer = SentenceTransformer(model, device="cpu")
    except Exception as error:  # the library, its parts and the network raise almost any kind
        reason = str(error).split("\n")[0]
        raise UserError(f"--encoder {model} cannot be loaded: {reason}") from error

    def encode(texts: Any) -> Any:
        return transformer.encode(list(texts), normalize_embeddings=True, show_progress_bar=False)

    weights = list(transformer.parameters())
    size = sum(one.numel() * one.element_size() for one in weights)
    costs = {"parameters": sum(one.numel() for one in weights), "megabytes": size / 1e6}
    return ByCosine(name, encode, encode), costs
