"""The driver of the follow machines on real etcd members: tests/stress/followd, a replica in a folder, no server."""
import os
import re
import signal
import subprocess
import threading
import time

import procs
from certs import Certs
from client import binary, write
from test_identity import restore
from test_old_etcd import old_etcd  # noqa: F401 (a fixture)

ROOT = ("root", "secret-root")


class Followd:
    """One followd; `status` is the newest line it said."""

    def __init__(self, endpoints, folder, *options):
        self.folder, self.lines, self.dumps, self.status = str(folder), [], [], {}
        self.err_path = self.folder + ".err"
        with open(self.err_path, "ab") as err:
            self.proc = procs.spawn([binary("tests", "followd"), "--endpoints", endpoints, "--dir", self.folder, *options],
                                    stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=err)
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self):
        rows = None
        for line in self.proc.stdout:
            text = line.decode().rstrip("\n")
            word, _, rest = text.partition(" ")
            if word == "dump":
                rows = {"rev": int(rest), "kvs": {}}
            elif word == "kv":
                key, version, mod = rest.split(" ")
                rows["kvs"][bytes.fromhex(key)] = (int(version), int(mod))
            elif word == "end":
                self.dumps.append(rows)
            elif word == "status":
                fields, _, reason = rest.partition(" reason=")
                self.status = dict(f.split("=", 1) for f in fields.split(" ")) | {"reason": reason}
            else:
                self.lines.append(text)

    def log(self):
        with open(self.err_path, errors="replace") as f:
            return f.read()

    def _wait(self, what, timeout, message):
        def there():
            assert self.proc.poll() is None, f"followd exited with {self.proc.returncode}: {self.log()[-3000:]}"
            return self.status and what(self.status)
        procs.wait_until(there, timeout, 0.02, lambda: f"{message}: {self.status} {self.log()[-2000:]}")
        return dict(self.status)

    def wait_live(self, rev, timeout=15):
        return self._wait(lambda s: s["standing"] == "ready" and int(s["rev"]) >= rev, timeout, f"live at {rev}")

    def wait(self, timeout=15, **fields):
        return self._wait(lambda s: all(re.fullmatch(v, s[k]) for k, v in fields.items()), timeout, fields)

    def cuts(self):
        return [dict(f.split("=") for f in line.split(" ")[1:]) for line in self.lines if line.startswith("cut ")]

    def backfill(self, start, oldest):
        """The answers to one request after another, until all of [start, oldest) has come."""
        got = []
        while start < oldest:
            n = sum(line.startswith("backfilled ") for line in self.lines)
            self.proc.stdin.write(f"backfill {start} {oldest}\n".encode())
            self.proc.stdin.flush()
            procs.wait_until(lambda: sum(line.startswith("backfilled ") for line in self.lines) > n, 20, 0.02,
                             lambda: f"backfill from {start}: {self.log()[-2000:]}")
            words = [line for line in self.lines if line.startswith("backfilled ")][-1].split(" ")
            assert words[2] == "BELFRY_OK", words
            answer = dict(w.split("=") for w in words[3:])
            assert int(answer["from"]) == start
            got.append(int(answer["n"]))
            start = int(answer["upto"]) + 1
        return got

    def dump(self):
        n = len(self.dumps)
        os.kill(self.proc.pid, signal.SIGUSR1)
        procs.wait_until(lambda: len(self.dumps) > n, 10, 0.02, "dump")
        return self.dumps[-1]

    def stop(self):
        """Ends it in order and returns the last dump."""
        n = len(self.dumps)
        self.proc.send_signal(signal.SIGTERM)
        assert self.proc.wait(10) == 0, self.log()[-3000:]
        self._thread.join(10)
        assert len(self.dumps) == n + 1
        return self.dumps[-1]

    def kill(self):
        procs.end(self.proc)


def agrees(dump, cluster, prefix=b""):
    """The dump is what etcdctl reads."""
    theirs = cluster.state(prefix.decode())
    assert {k: mod for k, (_, mod) in dump["kvs"].items()} == {k: mod for k, (_, mod) in theirs.items()}


def test_cold_start_lists_and_then_follows_and_a_warm_start_does_not_list(cluster, tmp_path, figure):
    write(cluster.endpoints, "mode=put", "prefix=/b/", "count=20")
    last = cluster.put("/a/1", "before")
    followd = Followd(cluster.endpoints, tmp_path / "replica")
    status = followd.wait_live(last)
    assert status["lists"] == "1" and followd.cuts()[0]["why"] == "start"
    assert status["upstream"] == str(last) and status["version"].startswith("3.")
    last = cluster.put("/a/1", "after")
    last = cluster.delete("/a/1")
    followd.wait_live(last)
    agrees(followd.dump(), cluster)
    assert sum(followd.backfill(2, last)) == last - 2
    figure("driver.idle_ticks", idle_ticks(followd))
    followd.stop()
    last = cluster.put("/a/3", "while it was away")
    followd = Followd(cluster.endpoints, tmp_path / "replica")
    status = followd.wait_live(last)
    assert status["lists"] == "0" and int(status["overlaps"]) >= 1
    followd.kill()  # a crash is as good as an orderly end
    last = cluster.put("/a/4", "likewise")
    followd = Followd(cluster.endpoints, tmp_path / "replica")
    assert followd.wait_live(last)["lists"] == "0"
    agrees(followd.stop(), cluster)


def idle_ticks(followd):
    """Ticks of 10 ms that a second and a half without events costs; a loop that spins would take them all."""
    before = procs.cpu_ticks(followd.proc.pid)
    time.sleep(1.5)
    used = procs.cpu_ticks(followd.proc.pid) - before
    assert used < 30
    return used


def test_loss_of_a_member_is_a_resume(make_cluster, tmp_path, figure):
    cluster = make_cluster(3)
    last = cluster.put("/a/1", "one")
    followd = Followd(cluster.endpoints, tmp_path / "replica")
    status = followd.wait_live(last)
    used = next(m for m in cluster.members if m.url == status["endpoint"])
    used.kill()
    begun = time.monotonic()
    other = next(m for m in cluster.members if m is not used)
    followd.wait(20, endpoint="(?!" + re.escape(used.url) + "$)http.*", state="live")
    figure("driver.failover", time.monotonic() - begun, "s")
    last = cluster.put("/a/2", "two", member=other)
    status = followd.wait_live(last, 20)
    assert status["lists"] == "1" and status["past"] == "1" and status["endpoint"] != used.url
    assert int(status["overlaps"]) >= 1
    followd.stop()


def test_compaction_over_our_head_while_it_was_away_lists_anew(cluster, tmp_path):
    last = cluster.put("/a/1", "one")
    followd = Followd(cluster.endpoints, tmp_path / "replica")
    followd.wait_live(last)
    followd.stop()
    write(cluster.endpoints, "mode=put", "prefix=/a/", "count=10")
    last = cluster.put("/a/1", "later")
    cluster.compact(last)
    followd = Followd(cluster.endpoints, tmp_path / "replica")
    status = followd.wait_live(last)
    assert status["lists"] == "1" and status["compacted"] == "1"
    assert followd.cuts()[-1] == {"past": "2", "rev": str(last), "why": "compacted", "compact_rev": str(last)}
    agrees(followd.stop(), cluster)


def test_far_behind_is_replayed_in_windows(cluster, tmp_path, figure):
    last = cluster.put("/a/1", "one")
    followd = Followd(cluster.endpoints, tmp_path / "replica")
    followd.wait_live(last)
    followd.stop()
    write(cluster.endpoints, "mode=put", "prefix=/k/", "count=6000", "inflight=64", "size=100")
    last = cluster.delete("/k/", "--prefix=true")  # one revision of 6,000 events
    begun = time.monotonic()
    followd = Followd(cluster.endpoints, tmp_path / "replica")
    status = followd.wait_live(last, 30)
    figure("driver.replay", time.monotonic() - begun, "s")
    assert status["lists"] == "0" and status["replays"] == "1"
    agrees(followd.stop(), cluster)


def test_upstream_that_is_down_is_waited_for(make_cluster, tmp_path):
    cluster = make_cluster(start=False)
    followd = Followd(cluster.endpoints, tmp_path / "replica")
    status = followd.wait(standing="not_ready", reason=r"upstream http://.* unreachable \(connection refused\)")
    assert cluster.members[0].url in status["reason"]
    time.sleep(1)  # several rounds
    assert followd.log().count("event=upstream_looking") == 2, "one line for a state, and not one for each try"
    cluster.start()
    followd.wait_live(cluster.put("/a/1", "one"))
    followd.stop()


def test_client_certificate_and_a_token_that_expires(make_cluster, tmp_path):
    certs = Certs(tmp_path / "certs", client_auth=True)
    cluster = make_cluster(tls=certs, flags=["--auth-token", "simple", "--auth-token-ttl", "2"])
    for args in (("user", "add", ":".join(ROOT)), ("user", "grant-role", "root", "root"), ("auth", "enable")):
        cluster.ctl(*args)
    cluster.auth = ROOT
    password = tmp_path / "password"
    password.write_text("wrong\n")
    last = cluster.put("/a/1", "one")
    followd = Followd(cluster.endpoints, tmp_path / "replica", *certs.ctl_flags(), "--user", ROOT[0], "--password-file",
                      str(password))
    followd.wait(standing="not_ready", reason=r"upstream https://.*authentication failed.*")
    password.write_text(ROOT[1] + "\n")
    followd.wait_live(last)
    time.sleep(3)  # the token has expired; the stream has not
    last = cluster.put("/a/2", "two")
    followd.wait_live(last)
    assert sum(followd.backfill(last - 1, last)) == 1  # a second stream, with a new token
    cluster.members[0].kill()
    cluster.members[0].restart()  # it knows none of its tokens any more
    last = cluster.put("/a/3", "three")
    status = followd.wait_live(last, 20)
    assert status["lists"] == "1" and status["past"] == "1"
    agrees(followd.stop(), cluster)


def test_another_cluster_at_the_same_address_is_a_new_past(cluster, tmp_path):
    write(cluster.endpoints, "mode=put", "prefix=/a/", "count=10")
    last = cluster.put("/a/1", "ours")
    followd = Followd(cluster.endpoints, tmp_path / "replica")
    before = followd.wait_live(last)
    cluster.forget()
    cluster.token = "somebody-else"
    cluster.start()
    last = cluster.put("/b/1", "theirs")
    after = followd.wait(past="2", standing="ready")
    assert after["cluster"] != before["cluster"]
    followd.wait_live(last)
    assert [cut["why"] for cut in followd.cuts()] == ["start", "rewritten"]
    assert "event=upstream_diverged" in followd.log()
    last = cluster.put("/b/2", "and on it goes")
    followd.wait_live(last)
    agrees(followd.stop(), cluster)


def test_a_restored_backup_is_a_new_past(cluster, tmp_path):
    write(cluster.endpoints, "mode=put", "prefix=/a/", "count=10")
    snapshot = tmp_path / "snapshot.db"
    cluster.ctl("snapshot", "save", str(snapshot))
    write(cluster.endpoints, "mode=put", "prefix=/b/", "count=10")
    last = cluster.put("/a/1", "after")
    followd = Followd(cluster.endpoints, tmp_path / "replica")
    followd.wait_live(last)
    restore(cluster, snapshot)
    cluster.members[0].start()
    write(cluster.endpoints, "mode=put", "prefix=/c/", "count=20")
    last = cluster.put("/a/1", "another history")
    followd.wait(past="2", standing="ready", rev=str(last))
    assert [cut["why"] for cut in followd.cuts()] == ["start", "rewritten"]
    agrees(followd.stop(), cluster)


def test_a_process_that_was_stopped_is_not_stale_and_an_upstream_that_hangs_is(cluster, tmp_path):
    followd = Followd(cluster.endpoints, tmp_path / "replica")
    last = cluster.put("/a/1", "one")
    followd.wait_live(last)
    os.kill(followd.proc.pid, signal.SIGSTOP)
    time.sleep(6)
    last = cluster.put("/a/2", "two")
    os.kill(followd.proc.pid, signal.SIGCONT)
    status = followd.wait_live(last)
    assert status["stales"] == "0" and int(status["gaps"]) >= 1
    cluster.members[0].stop()
    followd.wait(10, standing="stale")
    cluster.members[0].cont()
    status = followd.wait_live(cluster.put("/a/3", "three"))
    assert status["lists"] == "1" and status["past"] == "1"
    followd.stop()


def test_a_part_of_the_keys(cluster, tmp_path):
    cluster.put("/a/1", "in")
    cluster.put("/b/1", "out")
    followd = Followd(cluster.endpoints, tmp_path / "replica", "--scope", "/a/")
    last = cluster.put("/a/2", "in")
    followd.wait_live(last)
    last = cluster.put("/b/2", "out")
    followd.wait_live(last)  # by progress alone
    last = cluster.delete("/a/1")
    followd.wait_live(last)
    assert list(followd.dump()["kvs"]) == [b"/a/2"]
    followd.stop()
    last = cluster.put("/b/3", "out")
    followd = Followd(cluster.endpoints, tmp_path / "replica", "--scope", "/a/")
    assert followd.wait_live(last)["lists"] == "0"
    agrees(followd.stop(), cluster, b"/a/")


def test_a_restored_backup_is_found_in_a_part_that_has_seen_no_change(cluster, tmp_path):
    cluster.put("/a/1", "in")
    snapshot = tmp_path / "snapshot.db"
    cluster.ctl("snapshot", "save", str(snapshot))
    last = cluster.put("/a/2", "in")
    followd = Followd(cluster.endpoints, tmp_path / "replica", "--scope", "/a/")
    followd.wait_live(last)
    followd.stop()
    last = cluster.put("/b/1", "out")
    followd = Followd(cluster.endpoints, tmp_path / "replica", "--scope", "/a/")
    assert followd.wait_live(last)["lists"] == "0"
    followd.stop()
    restore(cluster, snapshot)
    cluster.members[0].start()
    for _ in range(5):
        last = cluster.put("/b/1", "another past, beyond our revision")
    followd = Followd(cluster.endpoints, tmp_path / "replica", "--scope", "/a/")
    assert followd.wait_live(last)["lists"] == "1"
    agrees(followd.stop(), cluster, b"/a/")


def test_an_old_etcd_is_followed_whole_and_refused_in_part(make_cluster, old_etcd, tmp_path):
    cluster = make_cluster(1, binary=old_etcd)
    last = cluster.put("/a/1", "one")
    part = Followd(cluster.endpoints, tmp_path / "part", "--scope", "/a/")
    whole = Followd(cluster.endpoints, tmp_path / "whole")
    whole.wait_live(last)
    part.wait(standing="not_ready", rev="0", reason=r"upstream etcd 3\.4\..* is too old for a scope: .*")
    time.sleep(6)  # longer than silence may last; its progress must not be asked for
    assert whole.status["standing"] == "ready" and whole.status["stales"] == "0"
    whole.wait_live(cluster.delete("/a/1"))
    assert whole.log().count("event=upstream_old_version") == 1
    assert part.status["rev"] == "0"
    part.stop()
    agrees(whole.stop(), cluster)
