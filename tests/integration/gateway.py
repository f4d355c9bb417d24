"""A JSON gateway, as programs that have only HTTP/1.1 speak to it."""
import base64
import http.client
import json
import socket

TIMEOUT_S = 30


def b64(raw):
    return base64.b64encode(raw).decode()


class Gateway:
    """One server's."""

    def __init__(self, port):
        self.port = port
        self.fields = {}  # of every request that does not have its own
        self._conn = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_S)

    def post(self, path, body, method="POST", headers=None):
        body = body if isinstance(body, (str, bytes)) else json.dumps(body)
        self._conn.request(method, path, body, self.fields | (headers or {}))
        answer = self._conn.getresponse()
        return answer.status, answer.getheader("content-type"), answer.read()

    def json(self, path, body=""):
        status, _, raw = self.post(path, body)
        assert status == 200, raw
        return json.loads(raw)

    def close(self):
        self._conn.close()


class Lines:
    """A response that goes on, to a request whose body stays open unless it `ends`."""

    def __init__(self, port, path, first, ends=False):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S)
        self.socket.sendall(f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
        self.ask(first)
        if ends:
            self.end()
        self.answer = http.client.HTTPResponse(self.socket)
        self.answer.begin()

    def ask(self, body):
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.socket.sendall(b"%x\r\n%s\r\n" % (len(raw), raw))

    def end(self):
        self.socket.sendall(b"0\r\n\r\n")

    def next(self):
        line = self.answer.readline()
        return json.loads(line) if line else None

    def close(self):
        self.socket.close()
