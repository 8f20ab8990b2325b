"""A small server of exported models: gRPC and REST as TensorFlow Serving has them, in one process.

Every limit on what strangers may ask for stands in `Limits`. May import export, retrieval, analysis
and the messages of `serving`; loads no TensorFlow before a SavedModel is opened.
"""

from dssm_tf.common.siblings import import_siblings

import_siblings()
