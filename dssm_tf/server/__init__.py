"""A small server of exported models, with the gRPC and REST APIs of TensorFlow Serving.

`Limits` has the limits on requests. May import export, retrieval, analysis, reports,
runtime, tables, text, common and the messages of `serving`. TensorFlow is loaded only to open a
SavedModel.
"""

from dssm_tf.common.siblings import import_siblings

import_siblings()
