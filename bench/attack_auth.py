"""attack_auth: the servers of bench/attacks with auth on in etcd, and what changes there while an attack lasts.

Mallory, the attacker, has a right to /k/ and at times one to /race/. Nobody but root and healthy clients may read /secret/,
whose values have the word that belfry-attack looks for in everything that it is sent."""
import base64
import concurrent.futures
import json
import pathlib
import time
import urllib.request

import attack_stage

PERIOD_S = 5          # --rights-period
LATE_S = 2            # after that, until nothing may be delivered any more
SECRET = "belfry-secret"
LEASES = 49           # of root, each with a key below /secret/
MINTED = 20, 20       # users, tokens of each
CYCLES = 2
KNOWN_S, PEEK_S, READY_S = 12, 2, 20  # until the tier knows that auth is off: it believes that it is on for 10 s; of an attack then; until it serves
ROOT, TIER, HEALTHY, MALLORY = "root", "tier", "healthy", "mallory"


def b64(text):
    return base64.b64encode(text.encode()).decode()


def span(prefix):
    return {"key": b64(prefix), "range_end": b64(prefix[:-1] + chr(ord(prefix[-1]) + 1))}


EVERYTHING = {"key": "AA==", "range_end": "AA=="}


class Stage(attack_stage.Stage):
    etcd_options = ("--bcrypt-cost", "4", "--auth-token-ttl", "36000")
    rights = ",rights=upstream"
    token = None  # of root

    def etcd_headers(self):
        return {"Authorization": self.token} if self.token else {}

    def call(self, path, **body):
        request = urllib.request.Request(f"http://{self.processes['etcd'].address}/v3/{path}", json.dumps(body).encode(), self.etcd_headers())
        with urllib.request.urlopen(request, timeout=20) as answer:
            return json.load(answer)

    def login(self, user):
        return self.call("auth/authenticate", name=user, password=user)["token"]

    def write(self, key, value, **more):
        self.call("kv/put", key=b64(key), value=b64(value), **more)

    def file(self, name):
        return pathlib.Path(self.folder.name) / name

    def start_etcd(self):
        super().start_etcd()
        for i in range(1, LEASES + 1):
            self.call("lease/grant", ID=i, TTL=36000)
            self.write(f"/secret/{i}", SECRET, lease=i)
        minted = [f"minted-{i}" for i in range(MINTED[0])]
        for role, kind, where in (("k", "READWRITE", span("/k/")), ("race", "READ", span("/race/")), ("all", "READ", EVERYTHING)):
            self.call("auth/role/add", name=role)
            if role != "race":
                self.call("auth/role/grant", name=role, perm={"permType": kind, **where})
        for user, roles in ((ROOT, [ROOT]), (TIER, ["all"]), (HEALTHY, [ROOT]), (MALLORY, ["k", "race"]), *((user, ["k"]) for user in minted)):
            self.call("auth/user/add", name=user, password=user)
            for role in roles:
                self.call("auth/user/grant", user=user, role=role)
        self.file("password").write_text(TIER + "\n")
        self.file("password").chmod(0o600)
        self.turn_auth_on()
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            tokens = pool.map(self.login, minted * MINTED[1])
            self.file("minted").write_text("".join(f"{token}\n" for token in tokens))

    def turn_auth_on(self):
        self.call("auth/enable")
        self.token = self.login(ROOT)
        for user in (HEALTHY, MALLORY):
            self.file(user).write_text(self.login(user) + "\n")

    def probe(self, name):
        return [] if name == "etcd" else ["--tokens", str(self.file(HEALTHY))]

    def argv(self, name, port):
        self.asked = [*super().argv(name, port), "--upstream-user", TIER, "--upstream-password-file", str(self.file("password")),
                      "--rights-period", f"{PERIOD_S}s"]
        return self.asked

    def credentials(self):
        return ["--tokens", str(self.file(HEALTHY)), "--write-token", self.file(HEALTHY).read_text().strip()]

    def tokens(self, name):
        return ["--tokens", str(self.file(name))] if name else []

    # ---- while an attack lasts ----

    def revoke_again_and_again(self):
        """Mallory may read /race/, and then not; what is written while it may not is secret."""
        perm = {"permType": "READ", **span("/race/")}
        for _ in range(CYCLES):
            self.call("auth/role/grant", name="race", perm=perm)
            for i in range(10):
                self.write(f"/race/{i}", "open")
                time.sleep(0.1)
            self.call("auth/role/revoke", role="race", **span("/race/"))
            time.sleep(PERIOD_S + LATE_S)
            for i in range(10):
                self.write(f"/race/{i}", SECRET)
                time.sleep(0.05)
            for i in range(10):  # what it reads later, when it may again, is no secret
                self.write(f"/race/{i}", "open")

    def switch_auth(self):
        """Off and on again. While it is off a client cannot be told from others: within 12 s (docs/security.md) the tier must
        serve nobody, and say why."""
        promised = time.monotonic() + KNOWN_S
        self.call("auth/disable")
        self.token = None
        self.await_readyz(lambda code, lines: code != 200 and any(line.startswith("[-]rights") for line in lines), KNOWN_S,
                          "/readyz does not say that auth is off")
        time.sleep(max(0, promised - time.monotonic()))  # each worker finds out by itself
        peek = attack_stage.Attack(self.tools, "peek", self.belfryd.address, *self.tokens(MALLORY))
        time.sleep(PEEK_S)
        told = peek.stop()["told"]
        if not told or "a secret" in told:
            self.wrongs.append(f"with auth off, a client was told: {told}")
        self.turn_auth_on()
        self.await_readyz(lambda code, _: code == 200, READY_S, "/readyz is not 200 after auth is on again")

    def await_readyz(self, holds, seconds, otherwise):
        until = time.monotonic() + seconds
        while not holds(*(found := attack_stage.readyz(self.admin))):
            if time.monotonic() > until:
                self.wrongs.append(f"{otherwise} after {seconds} s: {found}")
                return
            time.sleep(0.1)
