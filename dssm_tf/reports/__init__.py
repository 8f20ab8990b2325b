"""Reports as Markdown, HTML pages and figures; an `Evaluation` as tables and files.

May import evaluation, tables, text and common. Every command that writes a report uses it.
"""
