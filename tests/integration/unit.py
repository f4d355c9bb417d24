"""Stands in for systemd in a root folder, where no systemd runs: starts what an installed unit says, as the user it says.

Applied are ExecStart, User, Group, UMask, Environment, EnvironmentFile, CacheDirectory, StateDirectory, RuntimeDirectory and their
modes, LimitNOFILE, LimitCORE, NoNewPrivileges, CapabilityBoundingSet, Type=notify, Restart, RestartSec, RestartPreventExitStatus,
ExecReload and TimeoutStopSec. Not applied is what only systemd can do: the mount namespace (ProtectSystem and its kin) and
SystemCallFilter. A setting that is in neither list is an error, so that a new line of the unit is not passed over."""
import os
import re
import resource
import shlex
import shutil
import signal
import socket
import subprocess
import threading

import procs

FOLDERS = {"CacheDirectory": "var/cache", "StateDirectory": "var/lib", "RuntimeDirectory": "run"}
APPLIED = {"ExecStart", "User", "Group", "UMask", "Environment", "EnvironmentFile", "LimitNOFILE", "LimitCORE", "NoNewPrivileges",
           "CapabilityBoundingSet", "Type", "Restart", "RestartSec", "RestartPreventExitStatus", "ExecReload", "TimeoutStopSec",
           *FOLDERS, *(name + "Mode" for name in FOLDERS)}
NOT_APPLIED = {"TimeoutStartSec", "WatchdogSec", "RemoveIPC", "AmbientCapabilities", "ProtectSystem", "ProtectHome", "PrivateTmp",
               "PrivateDevices", "ProtectClock", "ProtectHostname", "ProtectKernelLogs", "ProtectKernelModules",
               "ProtectKernelTunables", "ProtectControlGroups", "ProtectProc", "RestrictAddressFamilies", "RestrictNamespaces",
               "RestrictRealtime", "RestrictSUIDSGID", "LockPersonality", "MemoryDenyWriteExecute", "SystemCallArchitectures",
               "SystemCallFilter", "PermissionsStartOnly"}
START_S, STOP_S = 60, 60


def service_settings(text):
    """{name: [values]} of a unit's section [Service]."""
    section = re.search(r"^\[Service\]\n(.*?)(?=^\[|\Z)", text, re.M | re.S)[1]
    found = {}
    for line in section.splitlines():
        if line and not line.startswith(("#", ";")):
            name, _, value = line.partition("=")
            found.setdefault(name, []).append(value)
    unknown = set(found) - APPLIED - NOT_APPLIED
    assert not unknown, f"unit.py does not know {sorted(unknown)}: apply it, or list it as not applied"
    return found


class Unit:
    """A service of the root folder `root`. It runs in the network namespace `ns`."""

    def __init__(self, root, name, ns=None):
        self.root, self.name, self.ns = str(root), name, ns
        self.log_path = f"{self.root}.{name}.journal"  # outside the root, as a journal is no file of the service
        self.proc, self.wanted, self.n_starts = None, False, 0
        self._ready, self._keeper = threading.Event(), None

    @property
    def settings(self):  # read again at each start, as after a daemon-reload
        for folder in ("usr/lib/systemd/system", "lib/systemd/system"):
            path = os.path.join(self.root, folder, f"{self.name}.service")
            if os.path.exists(path):
                with open(path) as f:
                    return service_settings(f.read())
        raise AssertionError(f"no {self.name}.service is installed in {self.root}")

    def _last(self, name, default=None):
        return self.settings.get(name, [default])[-1]

    def _ids(self):
        """(uid, gid) of User and Group, by the root folder's own tables."""
        def number(file, name, field):
            with open(os.path.join(self.root, "etc", file)) as f:
                rows = [line.split(":") for line in f]
            return next(int(row[field]) for row in rows if row[0] == name)
        user = self._last("User")
        assert user, f"{self.name} has no user of its own"
        group = self._last("Group")
        return number("passwd", user, 2), number("group", group, 2) if group else number("passwd", user, 3)

    def _environment(self):
        env = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"}
        settings = self.settings
        words = [word for value in settings.get("Environment", []) for word in shlex.split(value)]
        for file in settings.get("EnvironmentFile", []):
            with open(self.root + file.removeprefix("-").replace("%p", self.name)) as f:
                words += [line.strip() for line in f if "=" in line and not line.startswith("#")]
        for word in words:
            name, _, value = word.replace("%H", socket.gethostname()).partition("=")
            env[name] = value.strip('"')
        return env

    def _folders(self, uid, gid):
        """Makes the folders of the unit, and says where they are as systemd does."""
        env = {}
        for name, above in FOLDERS.items():
            folder = self._last(name)
            if folder:
                path = os.path.join(self.root, above, folder)
                os.makedirs(path, exist_ok=True)
                os.chmod(path, int(self._last(name + "Mode", "0755"), 8))
                os.chown(path, uid, gid)
                for parent, folders, files in os.walk(path):
                    for entry in folders + files:
                        os.chown(os.path.join(parent, entry), uid, gid, follow_symlinks=False)
                env[re.sub("(?<!^)(?=[A-Z])", "_", name).upper()] = "/" + os.path.join(above, folder)
        return env

    def limits(self):
        """As the unit says, or as much of it as this process may give: only some machines let root raise a limit."""
        found = {}
        for name, setting, kind in (("nofile", "LimitNOFILE", resource.RLIMIT_NOFILE), ("core", "LimitCORE", resource.RLIMIT_CORE)):
            if self._last(setting):
                hard = resource.getrlimit(kind)[1]
                found[name] = int(self._last(setting)) if hard == resource.RLIM_INFINITY else min(int(self._last(setting)), hard)
        return found

    def _argv(self, uid, gid, env):
        """The command in words, and what comes before it."""
        limits = [f"--{name}={limit}:{limit}" for name, limit in self.limits().items()]
        rights = ["--no-new-privs"] if self._last("NoNewPrivileges") == "yes" else []
        rights += ["--bounding-set=-all", "--inh-caps=-all"] if self._last("CapabilityBoundingSet") == "" else []
        command = []
        for word in shlex.split(self._last("ExecStart")):
            command += shlex.split(env.get(word[1:], "")) if word.startswith("$") else [word]
        return [*(["prlimit", *limits] if limits else []), "chroot", self.root, "setpriv", f"--reuid={uid}", f"--regid={gid}", "--clear-groups",
                *rights, "sh", "-c", f'umask {self._last("UMask", "0022")}; exec "$@"', "sh", *command]

    def _spawn(self):
        uid, gid = self._ids()
        env = self._environment()
        env.update(self._folders(uid, gid))
        self._notify.settimeout(0.2)
        env["NOTIFY_SOCKET"] = "/run/notify." + self.name
        self.n_starts += 1
        with open(self.log_path, "ab") as log:
            return procs.spawn(self._argv(uid, gid, env), ns=self.ns, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def _listen(self):
        path = os.path.join(self.root, "run/notify." + self.name)
        if os.path.exists(path):
            os.unlink(path)
        self._notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        here = os.open(os.path.dirname(path), os.O_PATH)  # a name of a socket is short
        try:
            self._notify.bind(f"/proc/self/fd/{here}/notify.{self.name}")
        finally:
            os.close(here)
        os.chmod(path, 0o666)

    def _follow(self, proc):
        """Hears what the service tells until it has ended."""
        if self._last("Type") != "notify":
            self._ready.set()
        while proc.poll() is None:
            try:
                if "READY=1" in self._notify.recv(4096).decode().split("\n"):
                    self._ready.set()
            except TimeoutError:
                pass

    def _is_restarted(self, status):
        policy = self._last("Restart", "no")
        prevented = [int(word) for word in self._last("RestartPreventExitStatus", "").split()]
        failed = status < 0 if policy == "on-abnormal" else status != 0
        return self.wanted and policy in ("on-failure", "on-abnormal") and failed and status not in prevented

    def _keep(self):
        """A thread of its own: a child ends with the thread that made it."""
        pause = threading.Event()
        while True:
            self.proc = self._spawn()
            self._follow(self.proc)
            if not self._is_restarted(self.proc.returncode):
                return
            pause.wait(float(self._last("RestartSec", "0.1").removesuffix("s")))

    def log(self):
        with open(self.log_path, errors="replace") as f:
            return f.read()

    def is_active(self):
        return self._keeper is not None and self._keeper.is_alive()

    def start(self):
        """Returns when the service has said that it is ready."""
        if self.is_active():
            return
        self.wanted = True
        self._ready.clear()
        self._listen()
        self._keeper = threading.Thread(target=self._keep, daemon=True)
        self._keeper.start()
        procs.wait_until(lambda: self._ready.is_set() or not self.is_active(), START_S, 0.05,
                         lambda: f"{self.name} is ready: {self.log()[-3000:]}")
        assert self._ready.is_set(), f"{self.name} ended with {self.proc.returncode}: {self.log()[-3000:]}"

    def stop(self):
        """SIGTERM, and the exit code."""
        self.wanted = False
        if not self.is_active():
            return None
        self._signal(signal.SIGTERM)
        try:
            self.proc.wait(STOP_S)
        finally:
            procs.end(self.proc)
            self._keeper.join()
            self._notify.close()
            os.unlink(os.path.join(self.root, "run/notify." + self.name))
            if self._last("RuntimeDirectory"):
                shutil.rmtree(os.path.join(self.root, "run", self._last("RuntimeDirectory")), ignore_errors=True)
        return self.proc.returncode

    def restart(self):
        self.stop()
        self.start()

    def kill(self, wait=True):
        """SIGKILL, after which the service manager does what the unit says. Returns when that is ready again, or at once."""
        self._ready.clear()
        self._signal(signal.SIGKILL)
        if not wait:
            return
        procs.wait_until(self._ready.is_set, START_S, 0.05, lambda: f"{self.name} is ready again: {self.log()[-3000:]}")

    def _signal(self, number):
        try:
            os.kill(self.proc.pid, number)
        except ProcessLookupError:
            pass
