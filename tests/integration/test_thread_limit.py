"""A tier under a limit of processes: when it is full no thread can be made, and the tier goes on without."""
import subprocess

import procs
from rawh2 import DATA, Connection

STREAMS = 1200  # of one connection; above 1,024, what they leave is freed on another thread
REFUSING = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <unistd.h>

int pthread_create(pthread_t *id, const pthread_attr_t *attr, void *(*start)(void *), void *arg)
{
    int (*create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *) = dlsym(RTLD_NEXT, "pthread_create");
    if (access("%(full)s", F_OK) == 0) {
        close(creat("%(full)s.refused", 0600));
        return EAGAIN;
    }
    return create(id, attr, start, arg);
}
"""


def preload(folder, full):
    source, library = folder / "refusing.c", folder / "refusing.so"
    source.write_text("#include <fcntl.h>\n" + REFUSING % {"full": full})
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    return str(library)


def test_a_connection_with_many_streams_ends_though_no_thread_can_be_made(cluster, make_tier, tmp_path):
    """libuv's pool, which freed it, ends the process when its first thread cannot be made."""
    full = tmp_path / "full"
    tier = make_tier(cluster, env={"LD_PRELOAD": preload(tmp_path, full)})
    many = Connection(tier.port)
    for _ in range(STREAMS):
        many.open(b"/etcdserverpb.Watch/Watch", bytes.fromhex("0a030a0161"))  # a watch of "a"
    created = set()
    while len(created) < STREAMS:
        kind, _, stream, _ = many.read(30)
        if kind == DATA:
            created.add(stream)
            many.give(1 << 10)
    full.touch()
    many.close()
    procs.wait_until(lambda: tier.metrics()['belfry_streams{dialect="grpc"}'] == 0, 30, 0.1, "its streams are gone")
    procs.wait_until(lambda: (tmp_path / "full.refused").exists(), 10, 0.1, "a thread was wanted, and refused")
    assert tier.is_running() and tier.get("/readyz")[0] == 200
