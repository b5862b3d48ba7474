"""An act of the store, killed at every line of the modules that do it: a child process per line, ended as by ``kill -9``.

A line that runs again and again counts once.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from types import FrameType, ModuleType
from typing import Any

import steelyard.store  # noqa: F401 (imported once, before the children are born)


def killed_at(line_number: int, modules: tuple[ModuleType, ...], act: Callable[[], object]) -> bool:
    """Do ``act`` in a child that is killed right before the n-th line that runs for the first time within ``modules``. False: it ended before."""
    child = os.fork()
    if child == 0:
        _die_at(line_number, {str(module.__file__) for module in modules})
        try:
            act()
        except BaseException:
            os._exit(1)
        os._exit(0)
    _pid, status = os.waitpid(child, 0)
    assert not os.WIFEXITED(status) or os.WEXITSTATUS(status) == 0, "the act failed in the child"
    return os.WIFSIGNALED(status)


def _die_at(line_number: int, files: set[str]) -> None:
    seen: set[tuple[str, int]] = set()

    def traced(frame: FrameType, event: str, _argument: Any) -> Any:
        if frame.f_code.co_filename not in files:
            return None
        if event == "line":
            seen.add((frame.f_code.co_filename, frame.f_lineno))
            if len(seen) > line_number:
                os.kill(os.getpid(), signal.SIGKILL)
        return traced

    sys.settrace(traced)
