# SPDX-License-Identifier: PostgreSQL
"""Stops one thread of a child process, the others run on: what a wedged loop looks like from outside."""

import ctypes
import os
import signal
from contextlib import contextmanager

LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
LIBC.ptrace.restype = ctypes.c_long
SEIZE, INTERRUPT, DETACH = 0x4206, 0x4207, 17
WAIT_ALL = 0x40000000


def ptrace(request, tid):
    if LIBC.ptrace(request, tid, None, None) != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"could not ptrace {tid}: {os.strerror(error)}")


@contextmanager
def thread_stopped(tid):
    """The thread of that id (a process's first thread has the process's id) does not run in the block."""
    ptrace(SEIZE, tid)
    ptrace(INTERRUPT, tid)
    _, status = os.waitpid(tid, WAIT_ALL)
    assert os.WIFSTOPPED(status) and os.WSTOPSIG(status) == signal.SIGTRAP, f"thread {tid} did not stop: {status}"
    try:
        yield
    finally:
        ptrace(DETACH, tid)
