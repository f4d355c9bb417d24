"""Certificates made at run time with the openssl tool: an authority, a server for 127.0.0.1, a client."""
import os

import procs


class Certs:
    def __init__(self, folder, client_auth=False):
        self.folder, self.client_auth = str(folder), client_auth
        os.makedirs(self.folder, exist_ok=True)
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
