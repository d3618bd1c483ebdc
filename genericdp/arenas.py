"""How the C library's allocator shares out memory to threads."""

from __future__ import annotations

_M_ARENA_MAX = -8  # of glibc's malloc.h


def keep_to_one() -> None:
    """Have all threads allocate from one arena; call it before the first of them starts.

    glibc gives each thread of gRPC its own else, where what is free helps no other thread. A C
    library without arenas has nothing to be set.
    """
    import ctypes  # only the daemon needs it

    try:
        mallopt = ctypes.CDLL(None).mallopt
    except AttributeError:
        return
    mallopt(_M_ARENA_MAX, 1)
