"""The systems the papers compare with, one model a file, behind one interface.

May import text, tables of clicks, evaluation's numbers and skip-thought encoders; `dssm_tf.systems`
holds their table.
"""
