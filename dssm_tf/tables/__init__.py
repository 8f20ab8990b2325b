"""Files that people give: click logs, judgments, corpora, texts; every row checked."""
