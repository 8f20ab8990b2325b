"""Progress output that appears even for the shortest tasks."""

import sys


def write_last_line(task, ended):
    """Replaces `progress._write_lines`: writes one line at the end of the task."""
    ended.wait()
    sys.stderr.write(f"{task.line()}\n")
