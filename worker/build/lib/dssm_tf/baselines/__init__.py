"""The systems the papers compare with, one model a file, behind one interface.

May import text, tables of clicks and evaluation's numbers; `dssm_tf.systems`
holds their table.
"""
