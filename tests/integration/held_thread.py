"""One thread of a process that is held while its others run, by ptrace: as one that hangs in the kernel, or gets no processor."""
import contextlib
import ctypes
import os

import needs

PTRACE_DETACH, PTRACE_SEIZE, PTRACE_INTERRUPT = 17, 0x4206, 0x4207
WALL = 0x40000000  # of waitpid: threads too
_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
_libc.ptrace.restype = ctypes.c_long


def threads(pid, name):
    """The ids of the threads of that name."""
    found = []
    for tid in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{tid}/comm") as f:
            if f.read().strip() == name:
                found.append(int(tid))
    return sorted(found)


def _ptrace(request, tid):
    if _libc.ptrace(request, tid, None, None) != 0:
        raise OSError(ctypes.get_errno(), "ptrace")


@contextlib.contextmanager
def held(tid):
    """From and to the same thread of the caller."""
    try:
        _ptrace(PTRACE_SEIZE, tid)
    except PermissionError:
        needs.missing("the right to hold a thread of another process (ptrace)")
    _ptrace(PTRACE_INTERRUPT, tid)
    os.waitpid(tid, WALL)
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            _ptrace(PTRACE_DETACH, tid)
