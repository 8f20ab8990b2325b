"""`dssm explain`: explains why a title matches a query."""

from __future__ import annotations

from json import dumps

from dssm_tf.common.files import atomic_directory, refuse_existing
from dssm_tf.common.paths import AnyPath, optional_path
from dssm_tf.common.terminal import RESULT, say


def explain(
    *,
    model: AnyPath,
    query: str,
    title: str,
    out: AnyPath | None = None,
    rules: AnyPath | None = None,
    json: bool = False,
) -> None:
    """Explain why a title matches a query.

    Prints how much each word of both texts adds to the score. For a model with the score maxsim,
    these are exact parts: for each word its match in the other text and their similarity; pairs of
    words; and for each word of the query its part of the text cosine. For a recurrent model, also
    prints its most active cells and keywords, and --out draws the gates of an LSTM (Palangi et al.
    2016, sec. V); for a CLSM, the words with the largest activations (Shen et al. 2014, fig. 4).

        dssm explain --model RUN --query "grand canion" --title "grand canyon" --out EXPLAINED

    Args:
        model: directory that `dssm train`, `dssm export` (OUT, OUT/NAME or OUT/NAME/VERSION) or
            `dssm index` wrote, or the directory of a saved baseline.
        query: the query, as a user would type it.
        title: the title, as it is displayed.
        out: directory for the report, its figures and explanation.json.
        rules: file with similar words and with pinned and blocked titles (docs/rules.md); by
            default the rules of the model, if it has some.
        json: print JSON instead of Markdown.

    Raises:
        UserError: the model cannot be read, or cannot explain these texts.
    """
    out, rules = optional_path(out), optional_path(rules)
    if out is not None:
        refuse_existing(out)
    # Imported here so that --help is fast.
    from dssm_tf.analysis.explanation import explain as explain_match
    from dssm_tf.analysis.rendering import markdown, write
    from dssm_tf.export.load import apply_rules, load

    explanation = explain_match(apply_rules(load(model), rules), query, title)
    if json:
        text = dumps(explanation.to_json(), indent=2, ensure_ascii=False)
    else:
        text = markdown(explanation)
    if out is not None:
        with atomic_directory(out) as directory:
            write(explanation, directory)
        text += "" if json else f"\n\nreport, figures and explanation.json: {out}"
    say(text, level=RESULT)
