"""Search indexes of a corpus: lexical (BM25), semantic (vectors) and hybrid.

May import evaluation, runtime and tables; loads faiss, bm25s and pyarrow when they are needed.
"""
