"""The Keras models of the DSE paper: two bags of words in, a dot product out."""
