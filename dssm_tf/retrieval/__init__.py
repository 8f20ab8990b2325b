"""Search indexes of a corpus: of words, of vectors, and of BM25.

May import evaluation, runtime and tables; loads faiss, bm25s and pyarrow when they are needed.
"""
