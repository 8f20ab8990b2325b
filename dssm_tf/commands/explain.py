"""`dssm explain`: why a title matches a query."""

from __future__ import annotations

from json import dumps
from pathlib import Path

from dssm_tf.common.files import atomic_directory, refuse_existing
from dssm_tf.common.terminal import say


def explain(
    *,
    model: Path,
    query: str,
    title: str,
    out: Path | None = None,
    json: bool = False,
) -> None:
    """Show why a title matches a query.

    Shows what each word of both texts adds to the score. For a recurrent run, also shows its gates,
    most active cells and keywords (Palangi et al. 2016, sec. V); for a CLSM, the words that win its
    neurons (Shen et al. 2014, fig. 4).

        dssm explain --model RUN --query "grand canion" --title "grand canyon" --out EXPLAINED

    Args:
        model: what `dssm train` or `dssm export` wrote (all of OUT, OUT/NAME or
            OUT/NAME/VERSION), or the directory of a saved baseline.
        query: as a user would type it.
        title: as it is displayed.
        out: directory for the report, its figures and explanation.json.
        json: print JSON, not Markdown.

    Raises:
        UserError: the model cannot be read or says nothing of these texts.
    """
    if out is not None:
        refuse_existing(out)
    # Only now: the command line must answer --help without these.
    from dssm_tf.analysis.explanation import explain as explained
    from dssm_tf.analysis.rendering import markdown, write
    from dssm_tf.export.load import load

    found = explained(load(model), query, title)
    text = dumps(found.to_json(), indent=2, ensure_ascii=False) if json else markdown(found)
    if out is not None:
        with atomic_directory(out) as directory:
            write(found, directory)
        text += "" if json else f"\n\nreport, figures and explanation.json: {out}"
    say(text)
