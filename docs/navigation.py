"""Order of the pages of the site: three sections, and the pages below a page."""

SECTIONS: dict[str, list[str]] = {
    "Guide for search teams": [
        "docs/log_size",
        "docs/export_log",
        "docs/train_and_compare",
        "docs/search_engines",
        "docs/serving",
        "docs/nightly_release",
        "docs/rules",
        "docs/analysis",
        "docs/filters",
        "docs/many_titles",
        "docs/gpu",
        "docs/privacy",
        "docs/glossary",
    ],
    "For researchers": [
        "docs/results",
        "docs/compare",
        "docs/training",
        "docs/baselines",
        "docs/paper_settings",
        "docs/paper_analyses",
        "docs/dse",
        "docs/grades",
        "docs/position_bias",
    ],
    "For maintainers": ["docs/architecture", "CONTRIBUTING", "CHANGELOG"],
}
"""Pages of each section, in the order of the site. Every page of the guide but the glossary has
the headings of GUIDE_PARTS."""

DETAILS: dict[str, list[str]] = {
    "docs/log_size": ["docs/start_vectors"],
    "docs/export_log": ["docs/data"],
    "docs/train_and_compare": ["docs/benchmark", "docs/configuration", "docs/tuning", "docs/api"],
    "docs/search_engines": ["docs/vector_engines"],
    "docs/serving": ["docs/server_limits", "docs/runtime", "docs/retrieval", "serving/README"],
    "docs/nightly_release": ["docs/interleaving", "docs/warm_start"],
    "docs/analysis": ["docs/maxsim"],
    "docs/filters": ["docs/remembered_clicks", "docs/learning_to_rank"],
    "docs/many_titles": ["docs/scale", "docs/engines"],
}
"""Pages below a page of the guide."""

GUIDE_PARTS = ("When you need it", "Command", "Output", "Options", "Evidence")
