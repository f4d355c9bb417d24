"""attack_asks: attacks by single requests, whose answers are looked at one by one: for bench/attacks. Each is a method of a stage."""
import base64
import http.client
import json
import random
import socket
import urllib.error
import urllib.request

SEED, READS, AGAIN = 7, 300, 10
KEYS = ["/k/", "/k/1", "/race/", "/secret/", "/secret/1", "/secret/5", "/bench/1", "/bench/", "/", "\0", "/k", "/k0", "/none"]
ENDS = [None, None, "", "\0", "/k0", "/secret0", "/secret/3", "/bench/2", "/z", "/k/"]
STEAL = b'POST /v3/kv/put HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 33\r\n\r\n{"key":"c3RvbGVu","value":"eWVz"}'
ASK = b"POST /v3/kv/range HTTP/1.1\r\nHost: 127.0.0.1\r\n"
BODY = b'{"key":"YQ=="}'
# What ends a message can be read in two ways, and in one of them the next request is part of it: each must be refused, and the next
# request with it.
FRAMINGS = {
    "length and chunked": b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunked and length": b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n",
    "identity": b"Transfer-Encoding: identity\r\nContent-Length: 14\r\n\r\n" + BODY,
    "chunked, identity": b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
    "xchunked": b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "a blank before the colon": b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
    "a folded line": b"Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n",
    "two codings": b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
    "a vertical tab": b"Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n",
    "two lengths": b"Content-Length: 14\r\nContent-Length: 0\r\n\r\n" + BODY,
    "a length with a sign": b"Content-Length: +14\r\n\r\n" + BODY,
    "a length in hexadecimal": b"Content-Length: 0xe\r\n\r\n" + BODY,
    "a length with a blank": b"Content-Length: 1 4\r\n\r\n" + BODY,
    "a negative length": b"Content-Length: -1\r\n\r\n" + BODY,
    "a length that is folded": b" Content-Length: 14\r\n\r\n" + BODY,
    "a bare CR": b"X: a\rContent-Length: 14\r\n\r\n" + BODY,
    "a NUL": b"X: a\0b\r\nContent-Length: 14\r\n\r\n" + BODY,
    "a chunk with 0x": b"Transfer-Encoding: chunked\r\n\r\n0xe\r\n" + BODY + b"\r\n0\r\n\r\n",
    "a chunk of 2^64": b"Transfer-Encoding: chunked\r\n\r\n1000000000000000e\r\n" + BODY + b"\r\n0\r\n\r\n",
    "a chunk that ends with CR": b"Transfer-Encoding: chunked\r\n\r\ne\r\r" + BODY + b"\r\n0\r\n\r\n",
}


class Asks:
    """What a stage has besides."""

    sent = 0

    def told(self):
        return {"told": {}, "bytes_out": self.sent, "bytes_in": 0}

    def smuggle(self):
        """A write, hidden in each of these; whether it was done is seen by its key (Row.stolen)."""
        for name, framing in FRAMINGS.items():
            host, port = self.belfryd.address.split(":")
            with socket.create_connection((host, int(port)), 5) as client:
                client.sendall(ASK + framing + STEAL)
                client.settimeout(2)
                said = b""
                try:
                    while more := client.recv(65536):
                        said += more
                except OSError:
                    pass
            self.sent += len(ASK + framing + STEAL)
            if not said.startswith(b"HTTP/1.1 4") and not said.startswith(b"HTTP/1.1 501") or said.count(b"HTTP/1.1 ") != 1:
                self.wrongs.append(f"{name}: {said[:200]!r}")

    def differ(self):
        """Random reads by users with other rights, of etcd and of the tier: the answers must be the same."""
        rng = random.Random(SEED)
        tokens = [None, "junk.1", *(self.file(name).read_text().split()[0] for name in ("mallory", "healthy", "minted"))]
        for _ in range(READS):
            token, body = rng.choice(tokens), json.dumps(self.random_range(rng)).encode()
            path, body = rng.choice((("range", body), ("txn", json.dumps({"success": [{"request_range": json.loads(body)}]}).encode())))
            for _ in range(AGAIN):  # healthy clients write meanwhile
                mine, etcds = (self.asked_of(address, path, body, token) for address in (self.belfryd.address, self.processes["etcd"].address))
                if mine == etcds:
                    break
            else:
                self.wrongs.append(f"{path} {body.decode()}: {str(mine)[:200]}; etcd: {str(etcds)[:200]}")

    @staticmethod
    def random_range(rng):
        asked = {"key": base64.b64encode(rng.choice(KEYS).encode()).decode()}
        end = rng.choice(ENDS)
        if end is not None:
            asked["range_end"] = base64.b64encode(end.encode()).decode()
        for field, values in (("limit", (1, 2, 10)), ("revision", (1, 3, 500, 1 << 40)), ("serializable", (True,)), ("keys_only", (True,)),
                              ("count_only", (True,)), ("sort_order", ("ASCEND", "DESCEND")), ("sort_target", ("KEY", "MOD"))):
            if rng.random() < 0.2:
                asked[field] = rng.choice(values)
        return asked

    def asked_of(self, address, path, body, token):
        """Status, code and what was found: not the header, which has a revision that moves."""
        request = urllib.request.Request(f"http://{address}/v3/kv/{path}", body, {"Authorization": token} if token else {})
        self.sent += len(body)
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                found = json.load(answer)
            for one in (found, *(response.get("response_range", {}) for response in found.get("responses", []))):
                one.pop("header", None)
            return 200, found
        except urllib.error.HTTPError as e:
            found = json.loads(e.read())
            return e.code, found.get("code"), found.get("message")
        except (OSError, http.client.HTTPException) as e:
            return str(e)
