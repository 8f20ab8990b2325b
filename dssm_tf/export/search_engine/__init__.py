"""Export of a maxsim model for OpenSearch and Elasticsearch, see `dssm_tf.runtime`'s client."""
