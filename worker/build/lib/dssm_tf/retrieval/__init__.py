"""A corpus made ready to be searched: by words, by vectors and by both.

May import evaluation, runtime and tables; loads faiss, bm25s and pyarrow when they are needed.
"""
