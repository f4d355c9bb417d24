"""The programs of docs/library.md, compiled from the page against this build and started: what readers copy is what runs."""
import os
import subprocess

import procs
from client import BIN

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
LIBRARIES = os.path.abspath(os.path.join(BIN, "..", "lib"))
ENDPOINT = "http://127.0.0.1:2379"  # as the page has it


class Program:
    """`name` of the page, with `url` for its endpoint; `flags` are further words for the compiler."""

    def __init__(self, folder, name, url, flags=()):
        self.name, self.folder, self.proc = name, folder, None
        procs.run(["/usr/bin/python3", os.path.join(ROOT, "tools", "doc-programs"), folder, os.path.join(ROOT, "docs", "library.md")])
        source = folder / f"{name}.c"
        source.write_text(source.read_text().replace(ENDPOINT, url))
        procs.run(["cc", "-o", folder / name, source, f"-I{ROOT}/include", f"-L{LIBRARIES}", f"-Wl,-rpath,{LIBRARIES}", "-lbelfry",
                   *flags], timeout=120)

    def start(self, *words, **env):
        """Standard output is by lines, as a reader at a terminal sees it."""
        with open(self.folder / "out", "wb") as out:
            self.proc = procs.spawn(["stdbuf", "-oL", self.folder / self.name, *words], stdin=subprocess.PIPE, stdout=out,
                                    stderr=subprocess.STDOUT, env={**os.environ, **env})
        return self

    def output(self):
        return (self.folder / "out").read_text(errors="replace")

    def wait_for(self, text):
        procs.wait_until(lambda: text in self.output(), 15, message=lambda: f"{text!r} in {self.output()!r}")
