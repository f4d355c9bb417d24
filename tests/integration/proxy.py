"""A way between a client and a server that can be held up, cut and closed, and can speak TLS to the client for a server that
does not, or to the server for a client that does not. Bytes are passed on unread."""
import asyncio
import socket
import ssl
import threading

import netns


class Proxy:
    """On a free port of 127.0.0.1, in a thread of its own, from creation to close()."""

    def __init__(self, target, tls=None, to_tls=None, ns=None):
        """`ns`: the namespace of the clients, if it is another. `tls`: an ssl.SSLContext for the side of the client, or None; `to_tls`: likewise for the side of the server, to which
        a connection then speaks the protocol that the client's first bytes show."""
        host, port = target.rsplit(":", 1)
        self._target, self._tls, self._server = (host, int(port)), tls, None
        self._to_tls, self._ns = to_tls, ns
        self._writers, self._tasks = set(), set()
        self.port, self.n_accepted = 0, 0
        self._left = None  # bytes that may still come from the server before every connection ends; None: no bound
        self.rate = 0  # bytes a second that each connection gets from the server; 0: as many as there are
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._call(self._begin())

    @property
    def endpoint(self):
        return f"127.0.0.1:{self.port}"

    @property
    def url(self):
        return f"{'https' if self._tls else 'http'}://{self.endpoint}"

    def _call(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(20)

    async def _begin(self):
        self._open = asyncio.Event()
        self._open.set()
        await self._listen()

    async def _listen(self):
        with netns.inside(self._ns):
            listening = socket.create_server(("127.0.0.1", self.port))
        self._server = await asyncio.start_server(self._accepted, sock=listening, ssl=self._tls)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _accepted(self, reader, writer):
        self.n_accepted += 1
        self._tasks.add(asyncio.current_task())
        self._writers.add(writer)
        try:
            await self._open.wait()
            first = await self._choose_protocol(reader) if self._to_tls else b""
            up_reader, up_writer = await asyncio.open_connection(*self._target, ssl=self._to_tls)
            self._writers.add(up_writer)
            up_writer.write(first)
            await asyncio.gather(self._pass(reader, up_writer), self._pass(up_reader, writer, from_server=True))
        except (OSError, ssl.SSLError, asyncio.IncompleteReadError, asyncio.CancelledError):
            writer.transport.abort()
        finally:
            self._tasks.discard(asyncio.current_task())
            self._writers.discard(writer)

    async def _choose_protocol(self, reader):
        """The client's first bytes; the connection that is made next offers what they begin."""
        first = await reader.readexactly(3)
        self._to_tls.set_alpn_protocols(["h2" if first == b"PRI" else "http/1.1"])
        return first

    async def _pass(self, reader, writer, from_server=False):
        try:
            while data := await reader.read(1 << 16):
                await self._open.wait()
                if from_server and self.rate:
                    await asyncio.sleep(len(data) / self.rate)
                writer.write(data[:self._left] if from_server else data)
                await writer.drain()
                if from_server and self._left is not None and self._spend(len(data)):
                    break
            writer.close()
        except (OSError, ssl.SSLError):
            writer.transport.abort()
        finally:
            self._writers.discard(writer)

    def _spend(self, n):
        """True: that was all."""
        self._left = self._left - n if n < self._left else None
        return self._left is None

    async def _cut(self):
        for writer in list(self._writers):
            writer.transport.abort()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _refuse(self):
        if self._server:
            self._server.close()
        self._server = None

    async def _gate(self, is_open):
        self._open.set() if is_open else self._open.clear()

    # what a test does

    def stall(self):
        """Nothing is passed on any more, and nothing is reset; new connections are made and hear nothing."""
        self._call(self._gate(False))

    def go(self):
        self._call(self._gate(True))

    def cut(self):
        """Resets every connection; new ones are welcome."""
        self._call(self._cut())

    def cut_after(self, n):
        """The connection that is given the n-th byte from now on ends behind it."""
        self._left = n

    def refuse(self):
        """New connections are refused, and the old ones reset."""
        self._call(self._refuse())
        self._call(self._cut())

    def accept(self):
        self._call(self._listen())

    def lead_to(self, target):
        """Another server, for the connections to come."""
        host, port = target.rsplit(":", 1)
        self._target = (host, int(port))

    def change_tls(self, context):
        """For the connections to come; while it refuses."""
        self._tls = context

    def close(self):
        self._call(self._refuse())
        self._call(self._cut())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)


def client_tls(certs, name="client"):
    """A context with the certificate of that name, for the side of the server."""
    context = ssl.create_default_context(cafile=certs.path("ca.pem"))
    context.load_cert_chain(certs.path(f"{name}.pem"), certs.path(f"{name}.key"))
    return context


def server_tls(certs):
    """A context with the server's certificate of certs.Certs, that wants the client's if certs do."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certs.path("server.pem"), certs.path("server.key"))
    if certs.client_auth:
        context.load_verify_locations(certs.path("ca.pem"))
        context.verify_mode = ssl.CERT_REQUIRED
    context.set_alpn_protocols(["http/1.1"])
    return context
