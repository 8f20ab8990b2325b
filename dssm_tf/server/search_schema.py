"""Requests and responses of `/v1/search`. Their JSON Schema is part of `/openapi.json`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

MAX_QUERY_LENGTH = 1000  # characters
MAX_TITLES = 100
MAX_EXPLAINED_TITLES = 10
_MAX_VALUES = 1000  # per filter
_MAX_FIELDS = 10

_Number = Annotated[float, Field(allow_inf_nan=False)]
_Value = Annotated[str, Field(max_length=MAX_QUERY_LENGTH)] | _Number
_Values = Annotated[list[_Value], Field(max_length=_MAX_VALUES, fail_fast=True)]


class NumberRange(BaseModel):
    """Bounds of a number, which must meet all of them."""

    model_config = ConfigDict(extra="forbid", strict=True)

    lt: _Number | None = Field(None, description="Below this number.")
    lte: _Number | None = Field(None, description="At most this number.")
    gt: _Number | None = Field(None, description="Above this number.")
    gte: _Number | None = Field(None, description="At least this number.")


class SearchRequest(BaseModel):
    """A search."""

    model_config = ConfigDict(extra="forbid", strict=True)

    query: str = Field(max_length=MAX_QUERY_LENGTH, description="The text that the user typed.")
    k: int = Field(10, ge=1, le=MAX_TITLES, description="Number of titles.")
    filters: dict[str, _Value | _Values | NumberRange] = Field(
        {},
        max_length=_MAX_FIELDS,
        description=(
            "Accepted values or a range of numbers by field: `doc_id`, a stored column, or a field "
            "of the titles. A title needs one of the values of each field, or a number in the "
            'range, such as {"brand": ["Sony", "LG"], "price": {"lte": 50}}.'
        ),
    )
    boosts: dict[str, _Number] = Field(
        {},
        max_length=_MAX_FIELDS,
        description=(
            "Weights by stored column: weight * ln(1 + number) is added to the score of a maxsim "
            'model, such as {"sales": 0.02}.'
        ),
    )
    explain: bool = Field(
        False, description=f"Explain the first {MAX_EXPLAINED_TITLES} titles word by word."
    )
    ranking: Literal["semantic", "bm25"] | None = Field(
        None,
        description=(
            "The ranking: semantic (the default), that of the model, or bm25, to compare with."
        ),
    )


class MatchedWord(BaseModel):
    """A word of the query and the most similar word of a title."""

    word: str = Field(description="The word of the query.")
    match: str | None = Field(description="The word of the title; null if none is similar.")
    similarity: float = Field(description="From 0 to 1.")
    spelled: str | None = Field(None, description="The word of the title as the title spells it.")
    is_same: bool = Field(False, description="Whether both are the same word.")
    rule: int | None = Field(None, description="The line of the rule that sets the similarity.")


class CorrectedWord(BaseModel):
    """An unknown word of the query, and the most similar known word."""

    word: str = Field(description="The word of the query, as the model reads it.")
    correction: str = Field(description="The known word.")
    similarity: float = Field(description="From 0 to 1.")


class TitlePart(BaseModel):
    """A part of a title. Parts are separated by spaces."""

    text: str
    is_match: bool = Field(description="Whether it has a word that matches the query.")


class RankedTitle(BaseModel):
    """A title in a ranking."""

    doc_id: str
    title: str = Field(description="The title; a long one is truncated.")
    score: float = Field(
        description="The score of the model; in the ranking bm25 of a maxsim model, that of BM25."
    )
    parts: dict[str, float] = Field(
        description=(
            "They add up to the score. Maxsim: query_words, title_words, pairs, text_cosine, "
            "prior, remembered_clicks, and boost_COLUMN for each boost. Cosine: similarity and "
            "prior. "
            "Ranking bm25 of maxsim: bm25."
        )
    )
    shown_parts: dict[str, float] = Field(
        {}, description="Parts that are not 0, rounded so that they add up to the rounded score."
    )
    title_parts: list[TitlePart] = Field(
        [], description="The title, truncated after 200 characters, with matched words marked."
    )
    bm25_score: float | None = Field(
        None, description="The score of BM25; not in the ranking of a maxsim model."
    )
    words: list[MatchedWord] = Field([], description="The words of the query; maxsim only.")
    rules: list[dict[str, Any]] = Field([], description="Rules by hand that apply to the title.")
    applied_rules: list[str] = Field([], description="Sentences about these rules, to show.")
    explanation: dict[str, Any] | None = Field(
        None,
        description="With `explain`: as `dssm explain --json` has it, with `summary`; or `error`.",
    )


class SearchResponse(BaseModel):
    """The result of a search."""

    query: str = Field(description="The query, on one line.")
    model: str
    version: int
    ranking: str = Field(description="The ranking of `results`.")
    no_good_match: bool = Field(description="Whether nothing matches well.")
    note: str = Field(description="A sentence for the user if nothing matches well, or empty.")
    corrected_query: str = Field(
        description="The query with the words of `corrections` replaced; empty without any."
    )
    corrections: list[CorrectedWord] = Field(
        description="Query words that are not known, each with the known word that it may mean."
    )
    rules: list[str] = Field(description="Rules by hand that block titles for the query.")
    results: list[RankedTitle] = Field(description="The best titles, best first.")


class Error(BaseModel):
    """A refusal."""

    error: str = Field(description="One line: what was received and what was expected.")
