#!/usr/bin/env python3
"""An informer on asyncio's loop: a local copy of keys in etcd, or of a Kubernetes resource, and what changes in it.

    belfry_informer.py keys [ENDPOINTS [PREFIX]]
    belfry_informer.py resource GROUP_VERSION PLURAL [NAMESPACE]     from the server that kubectl would use
"""
import asyncio
import ctypes
import sys
from ctypes import CFUNCTYPE, POINTER, byref, c_char_p, c_int, c_size_t, c_void_p

from belfry_follow import FUNCTIONS, MORE, Bytes, Range, Session, load

NEWS = {1: "added", 2: "updated", 3: "removed"}  # of enum belfry_news_kind, like the next line
NEWS_SYNCED, NEWS_LINK, NEWS_END = 4, 5, 6


class Resource(ctypes.Structure):
    _fields_ = [("group_version", c_char_p), ("plural", c_char_p), ("ns", c_char_p)]


class News(ctypes.Structure):
    _fields_ = [("kind", c_int), ("object", c_void_p), ("old", c_void_p), ("initial", c_int), ("resync", c_int),
                ("missed", c_int), ("err", c_int), ("why", c_char_p)]


NewsFn = CFUNCTYPE(c_int, c_void_p, POINTER(News), c_void_p)
FUNCTIONS.update({
    "belfry_kube_open": (c_int, c_void_p, c_void_p, POINTER(c_void_p), c_char_p, c_size_t),
    "belfry_informer_keys": (c_int, c_void_p, Range, c_void_p, NewsFn, c_void_p, c_void_p),
    "belfry_informer_resource": (c_int, c_void_p, Resource, c_void_p, NewsFn, c_void_p, c_void_p),
    "belfry_informer_count": (c_size_t, c_void_p),
    "belfry_object_key": (Bytes, c_void_p),
})


class Informer(Session):
    def on_news(self, informer, news, _user):
        if news[0].kind in NEWS:
            print(NEWS[news[0].kind], self.lib.belfry_object_key(news[0].object), flush=True)
        elif news[0].kind == NEWS_SYNCED:
            print(f"-- {self.lib.belfry_informer_count(informer)} objects, live from here --", flush=True)
        elif news[0].kind == NEWS_LINK:
            print(f"-- {news[0].why.decode()} --", flush=True)
        elif news[0].kind == NEWS_END:
            self.end(news[0].why.decode())
        return MORE

    def keys(self, prefix):
        self.callbacks.append(NewsFn(self.on_news))
        self.check(self.lib.belfry_informer_keys(self.handle, self.lib.belfry_prefix(prefix), None, self.callbacks[-1], None, None))

    def resource(self, resource):
        kube, why = c_void_p(), ctypes.create_string_buffer(256)
        self.check(self.lib.belfry_kube_open(self.handle, None, byref(kube), why, len(why)), why)
        self.callbacks.append(NewsFn(self.on_news))
        self.check(self.lib.belfry_informer_resource(kube, resource, None, self.callbacks[-1], None, None))


async def main(source, *words):
    words = [word.encode() for word in words]
    endpoints = None if source == "resource" else words[0] if words else b"http://127.0.0.1:2379"
    session = Informer(endpoints, load(FUNCTIONS))
    try:
        if source == "resource":
            session.resource(Resource(*words))
        else:
            session.keys(words[1] if len(words) > 1 else b"/services/")
        return await session.ended
    finally:
        session.close()


if __name__ == "__main__":
    if sys.argv[1:2] not in (["keys"], ["resource"]):
        sys.exit(__doc__)
    sys.exit(asyncio.run(main(*sys.argv[1:])) or 0)
