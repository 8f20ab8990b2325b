"""`dssm completion`: completions of commands and flags for a shell."""

from __future__ import annotations

import sys
from typing import Literal

from dssm_tf.commands import COMMANDS, load_command


def completion(shell: Literal["bash", "zsh", "fish"], /) -> None:
    """Print completions of commands, flags and paths for a shell.

        dssm completion bash > ~/.local/share/bash-completion/completions/dssm
        dssm completion zsh > ~/.zfunc/_dssm
        dssm completion fish > ~/.config/fish/completions/dssm.fish

    For zsh, `~/.zfunc` must be in `fpath` before `compinit`. New shells then complete `dssm`.

    Args:
        shell: the shell
    """
    from dssm_tf.common.command_line import completion_script

    commands = {name: load_command(name) for name in COMMANDS}
    sys.stdout.write(completion_script("dssm", commands, shell))
