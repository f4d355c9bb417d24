"""http_watches: watches over HTTP/1.1, one to a connection, in this process, and what a server needs for them: the clients of bench/gateway and of
bench/sse. Puts go to etcd. What the puts themselves cost etcd is measured first, and left out of its figures."""
import argparse
import base64
import concurrent.futures
import http.client
import json
import re
import select
import socket
import time

import stage

KEY, VALUE = base64.b64encode(b"/gateway/key").decode(), base64.b64encode(b"v" * 256).decode()
PUT = json.dumps({"key": KEY, "value": VALUE})
IN_FLIGHT = 16
TIMEOUT_S = 120


class Dialect:
    """How a watch is asked for, and what its lines say."""

    def __init__(self, request, created, revision):
        self.request, self.created, self.revision = request, created, re.compile(revision)


class Watch:
    """One connection and its watch; what is left over of a chunk or a line waits for the rest."""

    def __init__(self, port, dialect):
        self.dialect = dialect
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.sendall(dialect.request)
        self.socket.setblocking(False)
        self.raw, self.line, self.has_head, self.is_created = b"", b"", False, False
        self.newest, self.n_events, self.n_wrong = 0, 0, 0

    def read(self):
        """What has come: the number of events in it."""
        data = self.socket.recv(1 << 16)
        if not data:
            raise stage.Failure("a watch was ended")
        self.raw += data
        if not self.has_head:
            head, found, rest = self.raw.partition(b"\r\n\r\n")
            if not found:
                return 0
            if b" 200 " not in head:
                raise stage.Failure(f"a watch was refused: {head!r}")
            self.raw, self.has_head = rest, True
        before = self.n_events
        for line in self.lines():
            self.take(line)
        return self.n_events - before

    def lines(self):
        """Undoes the chunks."""
        while (end := self.raw.find(b"\r\n")) >= 0:
            size = int(self.raw[:end], 16)
            if len(self.raw) < end + size + 4:
                break
            self.line += self.raw[end + 2:end + 2 + size]
            self.raw = self.raw[end + size + 4:]
        *lines, self.line = self.line.split(b"\n")
        return lines

    def take(self, line):
        self.is_created = self.is_created or self.dialect.created in line
        for revision in map(int, self.dialect.revision.findall(line)):
            self.n_wrong += self.newest > 0 and revision != self.newest + 1  # nobody else writes
            self.newest = revision
            self.n_events += 1


class Watches:
    def __init__(self, port, n, dialect):
        self.poll = select.epoll()
        self.all = {}
        for _ in range(n):
            watch = Watch(port, dialect)
            self.all[watch.socket.fileno()] = watch
            self.poll.register(watch.socket, select.EPOLLIN)
        self.n_events = 0
        self.wait(lambda: all(w.is_created for w in self.all.values()), "created")

    def wait(self, is_done, what):
        until = time.monotonic() + TIMEOUT_S
        while not is_done():
            if time.monotonic() > until:
                raise stage.Failure(f"not all watches are {what} after {TIMEOUT_S} s")
            for fd, _ in self.poll.poll(0.1):
                self.n_events += self.all[fd].read()

    def wait_events(self, n_each):
        self.wait(lambda: self.n_events >= n_each * len(self.all), "told")

    def close(self):
        for watch in self.all.values():
            watch.socket.close()
        self.poll.close()


def put(address, n):
    """One after the other."""
    conn = http.client.HTTPConnection(address, timeout=TIMEOUT_S)
    for _ in range(n):
        conn.request("POST", "/v3/kv/put", PUT)
        answer = conn.getresponse()
        if answer.status != 200:
            raise stage.Failure(f"a put was refused: {answer.read()!r}")
        answer.read()
    conn.close()


def memory(pid):
    with open(f"/proc/{pid}/status") as f:
        return next(int(line.split()[1]) * 1024 for line in f if line.startswith("RssAnon:"))


class Stage(stage.Tiers):
    dialect = None

    def start_etcd(self):
        super().start_etcd()
        put(self.processes["etcd"].address, 1)

    def measure(self, server, mode, options):
        if server in self.missing:
            return None
        parser = argparse.ArgumentParser()
        parser.add_argument("--watches", type=int)
        parser.add_argument("--puts", type=int)
        parser.add_argument("--settle", type=float)
        args = parser.parse_args(options)
        try:
            return {"idle": self.idle, "paced": self.paced, "burst": self.burst}[mode](self.processes[server], args)
        except (stage.Failure, OSError, http.client.HTTPException) as e:
            return {"fault": f"{server}: {e}", "complaint": str(e)}

    def idle(self, process, args):
        pid = process.popen.pid
        before = memory(pid)
        watches = Watches(int(process.address.split(":")[1]), args.watches, self.dialect)
        time.sleep(args.settle)
        grown = memory(pid) - before
        watches.close()
        return {"memory_bytes_per_watch": grown / args.watches}

    def put_cost(self, process, puts):
        """What a put costs the server itself, with nobody watching: nothing, unless it is etcd."""
        if process.name != "etcd":
            return 0.0
        begin = process.cpu_s()
        puts()
        return process.cpu_s() - begin

    def cost(self, process, args, puts):
        """CPU of the server for `puts`, which is given the watches, or None when there are none."""
        alone = self.put_cost(process, lambda: puts(None))
        watches = Watches(int(process.address.split(":")[1]), args.watches, self.dialect)
        begin, began = process.cpu_s(), time.monotonic()
        puts(watches)
        cpu, took = process.cpu_s() - begin - alone, time.monotonic() - began
        time.sleep(0.2)
        watches.wait(lambda: True, "")
        n = watches.n_events
        wanted = args.puts * args.watches
        wrong = sum(w.n_wrong for w in watches.all.values())
        watches.close()
        return {"server_cpu_us_per_delivery": cpu / n * 1e6, "deliveries_per_s": n / took, "deliveries": n,
                "lost": max(0, wanted - n), "doubled": max(0, n - wanted) + wrong}

    def paced(self, process, args):
        etcd = self.processes["etcd"].address

        def puts(watches):
            for i in range(args.puts):
                put(etcd, 1)
                if watches:
                    watches.wait_events(i + 1)
        return self.cost(process, args, puts)

    def burst(self, process, args):
        etcd = self.processes["etcd"].address

        def puts(watches):
            with concurrent.futures.ThreadPoolExecutor(IN_FLIGHT) as pool:
                putting = [pool.submit(put, etcd, args.puts // IN_FLIGHT) for _ in range(IN_FLIGHT)]
                if watches:
                    watches.wait_events(args.puts)
                for one in putting:
                    one.result()
        return self.cost(process, args, puts)
