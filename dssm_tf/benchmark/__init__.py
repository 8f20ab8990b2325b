"""`dssm benchmark`: compares many systems on one log and one set of judgments, in one table.

`benchmark` is the main program: prepare, fit, fuse, measure, test, write. Each system and seed is
fitted in a separate process (`fit`), in a folder named by a hash of everything that its run depends
on. A fit is skipped if its folder contains a run, so a killed benchmark resumes. The other steps
are cheap and repeated on each call.

`teacher` writes the scores of another model, from which a small model learns.

May import every package except commands and tuning.
"""

from dssm_tf.common.siblings import import_siblings

import_siblings()
