"""Export of a maxsim model for OpenSearch and Elasticsearch.

`dssm_tf.runtime.search_engine_client` is the client.
"""
