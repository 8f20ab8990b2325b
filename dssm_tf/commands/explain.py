"""`dssm explain`: why a title matches a query, and what a word is like."""

from __future__ import annotations

from json import dumps
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from dssm_tf.common.errors import UserError
from dssm_tf.common.terminal import say


def explain(
    *,
    model: Path,
    query: str | None = None,
    title: str | None = None,
    word: str | None = None,
    texts: Annotated[tuple[str, ...], Parameter(consume_multiple=True)] = (),
    out: Path | None = None,
    json: bool = False,
) -> None:
    """Show why a title matches a query, or which words are similar.

    What each word of both texts adds to the score; of a recurrent run also its gates, most active
    cells and keywords (Palangi et al. 2016, sec. V), of a CLSM the words that win its neurons (Shen
    et al. 2014, fig. 4). With --word, the words nearest to it, or how alike it is in different
    texts.

        dssm explain --model RUN --query "grand canion" --title "grand canyon" --out EXPLAINED

    Args:
        model: what `dssm train` or `dssm export` wrote (all of OUT, OUT/NAME or
            OUT/NAME/VERSION), or a baseline was saved in.
        query: as a user would type it.
        title: as it is displayed.
        word: instead of a query and a title, for a run or doc2vec: the words nearest to this one
            (Palangi et al. 2016, supplement F; Wu et al. 2014, table 2).
        texts: with --word, for a CLSM or a recurrent run: texts that have the word, to compare the
            first one with the others (Shen et al. 2014, table 2).
        out: directory for the report, its figures and explanation.json.
        json: print JSON, not Markdown.

    Raises:
        UserError: the model cannot be read or says nothing of these texts.
    """
    _check(query, title, word, texts, out)
    from dssm_tf.common.files import atomic_directory
    from dssm_tf.export.load import load

    ranker = load(model)
    if word is not None:
        found, text = (_contexts if texts else _nearest)(ranker, word, texts)
    else:
        from dssm_tf.analysis.explanation import explain as explained
        from dssm_tf.analysis.show import markdown, write

        explanation = explained(ranker, query or "", title or "")
        found, text = explanation.to_json(), markdown(explanation)
        if out is not None:
            with atomic_directory(out) as directory:
                write(explanation, directory)
            text += f"\n\nreport, figures and explanation.json: {out}"
    if json:
        text = dumps(found, indent=2, ensure_ascii=False)
    say(text)


def _check(
    query: str | None,
    title: str | None,
    word: str | None,
    texts: tuple[str, ...],
    out: Path | None,
) -> None:
    """Refuses what cannot be before TensorFlow is loaded, which takes seconds."""
    from dssm_tf.common.files import refuse_existing

    if word is None:
        if None in (query, title) or texts:
            raise UserError("give --query and --title, or --word with or without --texts.")
    elif (query, title, out) != (None, None, None):
        raise UserError("--word cannot be combined with --query, --title and --out.")
    if len(texts) == 1:
        raise UserError("--texts has one text; give two or more.")
    if out is not None:
        refuse_existing(out)


def _nearest(ranker: Any, word: str, _: tuple[str, ...]) -> tuple[Any, str]:
    from dssm_tf.common.markdown import plain, table

    if hasattr(ranker, "most_similar"):
        nearest = ranker.most_similar(word)
    elif hasattr(ranker, "model"):
        from dssm_tf.analysis.survey import neighbours  # TensorFlow's

        vocabulary = ranker.vocabulary
        among = (one for title in ranker.prior.log_shares for one in vocabulary.words(title))
        read = vocabulary.words(word)[:1] or [word]
        nearest = neighbours(ranker.model.title_tower, vocabulary, read[0], among)
        if not nearest:
            raise UserError(f"the vocabulary has no letter trigram of {word!r}.")
    else:
        raise UserError(f"{ranker.name} has no vectors of words; --word is for runs and doc2vec.")
    rows = [[plain(one), f"{cosine:.3f}"] for one, cosine in nearest]
    return {"word": word, "nearest": nearest}, table([plain(word), "cosine"], rows)


def _contexts(ranker: Any, word: str, texts: tuple[str, ...]) -> tuple[Any, str]:
    from dssm_tf.common.markdown import marked, table

    if not hasattr(ranker, "model"):
        raise UserError(f"{ranker.name} is not a run of `dssm train`, which --texts needs.")
    from dssm_tf.analysis.survey import contexts  # TensorFlow's

    found = contexts(ranker.model.title_tower, ranker.vocabulary, word, texts)
    rows = [[marked(text, [found.word]), f"{cosine:.3f}"] for text, cosine in found.others]
    others = [(" ".join(text), cosine) for text, cosine in found.others]
    plainly = {"word": found.word, "text": " ".join(found.text), "others": others}
    return plainly, table([marked(found.text, [found.word]), "cosine"], rows)
