"""Search indexes of a corpus: of words, of vectors, and of BM25.

May import export, baselines, evaluation, runtime, tables, text and common. faiss, bm25s and pyarrow
are loaded when they are needed.
"""
