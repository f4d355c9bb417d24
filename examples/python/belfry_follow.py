#!/usr/bin/env python3
"""libbelfry on asyncio's loop, through ctypes: a session has one descriptor, so the loop needs only add_reader().

    belfry_follow.py [ENDPOINTS [PREFIX]]     the state of a prefix, then every change to it, until Ctrl-C
"""
import asyncio
import ctypes
import signal
import sys
from ctypes import CFUNCTYPE, POINTER, byref, c_char_p, c_int, c_int64, c_size_t, c_void_p

MORE, PUT, SYNCED, END = 0, 1, 3, 6  # of enum belfry_next, belfry_op and belfry_kind


class Bytes(ctypes.Structure):
    _fields_ = [("data", c_void_p), ("len", c_size_t)]

    def __str__(self):
        return ctypes.string_at(self.data, self.len).decode(errors="replace") if self.len else ""


class Range(ctypes.Structure):
    _fields_ = [("key", Bytes), ("end", Bytes), ("kind", c_int)]


class Event(ctypes.Structure):  # only its first fields, like Batch: both may grow at their end, so never copy them
    _fields_ = [("op", c_int), ("key", Bytes), ("value", Bytes)]


class Batch(ctypes.Structure):
    _fields_ = [("kind", c_int), ("rev", c_int64), ("n_events", c_size_t), ("err", c_int), ("why", c_char_p)]


BatchFn = CFUNCTYPE(c_int, c_void_p, POINTER(Batch), c_void_p)
FUNCTIONS = {  # name: result, arguments
    "belfry_open_why": (c_int, c_char_p, c_void_p, POINTER(c_void_p), c_char_p, c_size_t),
    "belfry_close": (None, c_void_p),
    "belfry_fd": (c_int, c_void_p),
    "belfry_dispatch": (c_int, c_void_p),
    "belfry_strerror": (c_char_p, c_int),
    "belfry_prefix": (Range, c_char_p),
    "belfry_follow_open": (c_int, c_void_p, Range, c_void_p, BatchFn, c_void_p, c_void_p),
    "belfry_batch_next": (POINTER(Event), POINTER(Batch), POINTER(Event)),
}


def load(functions):
    lib = ctypes.CDLL("libbelfry.so.0.3")
    for name, (result, *arguments) in functions.items():
        getattr(lib, name).restype, getattr(lib, name).argtypes = result, arguments
    return lib


class Session:
    """A session on the running loop. The result of `ended` is the reason of its end; "" after a signal."""

    def __init__(self, endpoints, lib):
        self.lib, self.handle, self.ended = lib, c_void_p(), asyncio.Future()
        self.callbacks = []  # ctypes does not keep them alive
        why = ctypes.create_string_buffer(256)
        self.check(lib.belfry_open_why(endpoints, None, byref(self.handle), why, len(why)), why)
        self.loop, self.fd = asyncio.get_running_loop(), lib.belfry_fd(self.handle)
        self.loop.add_reader(self.fd, self.dispatch)
        for signo in (signal.SIGINT, signal.SIGTERM):
            self.loop.add_signal_handler(signo, self.end, "")

    def check(self, err, why=None):
        if err:
            raise OSError(f"{self.lib.belfry_strerror(err).decode()} {why.value.decode() if why else ''}")

    def dispatch(self):
        err = self.lib.belfry_dispatch(self.handle)
        if err:
            self.loop.remove_reader(self.fd)  # it would stay readable
            self.end(self.lib.belfry_strerror(err).decode())

    def end(self, why):
        if not self.ended.done():
            self.ended.set_result(why)

    def close(self):
        self.loop.remove_reader(self.fd)
        self.lib.belfry_close(self.handle)

    def follow(self, prefix):
        def on_batch(_watch, batch, _user):
            event = self.lib.belfry_batch_next(batch, None)
            while event:
                print(batch[0].rev, "put" if event[0].op == PUT else "del", f"{event[0].key}={event[0].value}", flush=True)
                event = self.lib.belfry_batch_next(batch, event)
            if batch[0].kind == SYNCED:
                print(f"-- {batch[0].rev}: all of it, live from here --", flush=True)
            if batch[0].kind == END:
                self.end(batch[0].why.decode())
            return MORE

        self.callbacks.append(BatchFn(on_batch))
        self.check(self.lib.belfry_follow_open(self.handle, self.lib.belfry_prefix(prefix), None, self.callbacks[-1], None, None))


async def main(endpoints="http://127.0.0.1:2379", prefix="/services/"):
    session = Session(endpoints.encode(), load(FUNCTIONS))
    try:
        session.follow(prefix.encode())
        return await session.ended
    finally:
        session.close()


if __name__ == "__main__":
    sys.exit(asyncio.run(main(*sys.argv[1:])) or 0)
