"""Certificates made at run time with the openssl tool: an authority, a server for 127.0.0.1, a client."""
import os
import shutil
import tempfile

import procs

SERVER, CLIENT = ("server.key", "server.pem"), ("client.key", "client.pem")
AUTHORITY = ("ca.key", "ca.pem")


class Certs:
    def __init__(self, folder, client_auth=False, authority=None):
        """`authority`: the folder of one that is there; otherwise a new one is made."""
        self.folder, self.client_auth = str(folder), client_auth
        os.makedirs(self.folder, exist_ok=True)
        if authority:
            for name in AUTHORITY:
                shutil.copy(os.path.join(authority, name), self.path(name))
        else:
            self._authority("ca")
        self._signed("server", "/CN=etcd", "subjectAltName=IP:127.0.0.1,DNS:localhost")
        self._signed("client", "/CN=reader", "extendedKeyUsage=clientAuth")
        self._authority("other")

    def path(self, name):
        return os.path.join(self.folder, name)

    def _openssl(self, *args):
        procs.run(["openssl", *args], timeout=60)

    def _authority(self, name):
        self._openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                      "-subj", f"/CN={name}", "-keyout", self.path(f"{name}.key"), "-out", self.path(f"{name}.pem"))

    def _signed(self, name, subject, extension):
        self._openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", subject,
                      "-keyout", self.path(f"{name}.key"), "-out", self.path(f"{name}.csr"))
        with open(self.path(f"{name}.ext"), "w") as f:
            f.write(extension + "\n")
        self._openssl("x509", "-req", "-in", self.path(f"{name}.csr"), "-CA", self.path("ca.pem"), "-CAkey",
                      self.path("ca.key"), "-CAcreateserial", "-days", "2", "-extfile", self.path(f"{name}.ext"),
                      "-out", self.path(f"{name}.pem"))

    def renew(self, authority=False):
        """New keys and certificates for server and client under the old names, each file replaced by rename; with
        `authority` by a new one, so that nothing of the old is believed any more."""
        with tempfile.TemporaryDirectory(dir=self.folder) as folder:
            fresh = Certs(folder, self.client_auth, None if authority else self.folder)
            for name in (AUTHORITY if authority else ()) + SERVER + CLIENT:
                os.replace(fresh.path(name), self.path(name))

    def server_flags(self):
        flags = ["--cert-file", self.path("server.pem"), "--key-file", self.path("server.key")]
        if self.client_auth:
            flags += ["--client-cert-auth", "--trusted-ca-file", self.path("ca.pem")]
        return flags

    def ctl_flags(self):
        flags = ["--cacert", self.path("ca.pem")]
        if self.client_auth:
            flags += ["--cert", self.path("client.pem"), "--key", self.path("client.key")]
        return flags

    def options(self):
        """For a session."""
        words = self.ctl_flags()
        return [f"{name[2:]}={value}" for name, value in zip(words[::2], words[1::2])]
