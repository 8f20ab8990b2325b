"""`dssm benchmark`: many systems, one log, one set of judgments, one table.

`teacher` writes another model's scores for a small one to learn from. May import every package but
commands and tuning.

`benchmark` is the program, top to bottom: prepare, fit, fuse, measure, test, write. Each system and
seed is fitted in a process of its own (`fit`) in a folder named by all that its run depends on;
where the run is, the fit is done, so a killed benchmark resumes. What is left is cheap and done
anew each time.
"""

from dssm_tf.common.siblings import import_siblings

import_siblings()
