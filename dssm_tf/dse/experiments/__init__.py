"""`dssm experiment`: the tables and figures of the DSE paper."""
