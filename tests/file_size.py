"""A limit on the size of files, to simulate a full disk."""

import resource
from contextlib import contextmanager


@contextmanager
def limited_file_size(size):
    """No file of this process grows beyond `size` bytes until the block ends."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
