"""Imports the functions that Numba compiles."""

from __future__ import annotations

from typing import Any

from dssm_tf.common.errors import UserError, install_command


def load_kernels() -> Any:
    """Imports the compiled functions.

    Raises:
        UserError: Numba is not installed.
    """
    try:
        from dssm_tf.retrieval import maxsim_kernels
    except ImportError as error:
        raise UserError(
            f"Numba cannot be imported ({error}); install it with: {install_command('search')}."
        ) from None
    return maxsim_kernels
