"""kube_informers: many clients of Kubernetes' API that list and then watch, over TLS, in processes of their own: for bench/kubetier. They count
events and look at nothing else, so that as many as possible fit on the machine of the server."""
import http.client
import multiprocessing
import os
import re
import select
import ssl
import time
from concurrent.futures import ThreadPoolExecutor

import stage

STARTING = 32  # at a time, of each process
WORDS = (b'"type":"MODIFIED"', b'"type":"ADDED"')
OF_LIST = re.compile(rb'"metadata":\{(?:"continue":"",)?"resourceVersion":"(\d+)"')  # an object's begin with its name
TAIL = max(map(len, WORDS)) - 1


class Informer:
    def __init__(self, port, path, query, token, tls):
        self.path, self.query, self.headers = path, query, {"Authorization": f"Bearer {token}", "Accept": "application/json"}
        make = http.client.HTTPSConnection if tls else http.client.HTTPConnection
        self.connection = make("127.0.0.1", port, timeout=300, **({"context": tls} if tls else {}))
        self.n, self.listed_bytes, self.tail = 0, 0, b""

    def start(self):
        listed = self.get("resourceVersion=0")
        body = listed.read()
        self.listed_bytes = len(body)
        version = OF_LIST.search(body)[1].decode()
        response = self.get(f"watch=1&resourceVersion={version}&allowWatchBookmarks=true&timeoutSeconds=3600")
        self.socket = self.connection.sock
        self.socket.setblocking(False)
        try:
            self.take(response.fp.peek() or b"")
        except (ssl.SSLWantReadError, BlockingIOError):
            pass
        return self

    def get(self, query):
        self.connection.request("GET", f"{self.path}?{query}{self.query}", headers=self.headers)
        response = self.connection.getresponse()
        if response.status != 200:
            raise stage.Failure(f"{self.path}?{query}{self.query}: {response.status} {response.read()[:200]!r}")
        return response

    def take(self, data):
        data = self.tail + data
        if b'"type":"ERROR"' in data:
            raise stage.Failure(f"a watch was ended: {data[-300:]!r}")
        self.n += sum(data.count(word) for word in WORDS)
        self.tail = data[-TAIL:]

    def read(self):
        try:
            while data := self.socket.recv(1 << 16):
                self.take(data)
            raise stage.Failure("a watch was ended")
        except (ssl.SSLWantReadError, BlockingIOError):
            pass


def serve(pipe, port, path, queries, token, cafile):
    """The child: starts all of them, says when they watch, and answers with the number of events so far."""
    tls = ssl.create_default_context(cafile=cafile) if cafile else None
    try:
        with ThreadPoolExecutor(STARTING) as pool:
            informers = list(pool.map(lambda query: Informer(port, path, query, token, tls).start(), queries))
        poll, by_fd = select.epoll(), {}
        for informer in informers:
            by_fd[informer.socket.fileno()] = informer
            poll.register(informer.socket, select.EPOLLIN)
        poll.register(pipe, select.EPOLLIN)
        pipe.send(sum(i.listed_bytes for i in informers))
        while True:
            for fd, _ in poll.poll():
                if fd in by_fd:
                    by_fd[fd].read()
                elif pipe.recv() == "end":
                    os._exit(0)
                else:
                    pipe.send(sum(i.n for i in informers))
    except (stage.Failure, OSError, EOFError) as e:
        pipe.send(str(e) or repr(e))
        os._exit(1)


class Informers:
    """`queries`: one for each of them, of a selector."""

    def __init__(self, port, path, queries, identity, n_processes=2, tls=True):
        self.children, self.n = [], len(queries)
        began = time.monotonic()
        for i in range(n_processes):
            ours, theirs = multiprocessing.Pipe()
            child = multiprocessing.Process(target=serve, daemon=True, args=(
                theirs, port, path, queries[i::n_processes], identity.tokens["admin"], str(identity.path("ca.pem")) if tls else None))
            child.start()
            self.children.append((child, ours))
        self.listed_bytes = sum(self.answers())
        self.start_s = time.monotonic() - began

    def answers(self):
        found = [pipe.recv() for _, pipe in self.children]
        for answer in found:
            if isinstance(answer, str):
                raise stage.Failure(answer)
        return found

    def events(self):
        for _, pipe in self.children:
            pipe.send("count")
        return sum(self.answers())

    def wait(self, n, timeout_s=120):
        until = time.monotonic() + timeout_s
        while (got := self.events()) < n:
            if time.monotonic() > until:
                raise stage.Failure(f"{got} of {n} events after {timeout_s} s")
            time.sleep(0.2)
        return got

    def close(self):
        for child, pipe in self.children:
            try:
                pipe.send("end")
            except OSError:
                pass
            child.join(10)
