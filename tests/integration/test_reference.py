"""Reference pages have everything that the programs have: codes, messages, log lines, keys, metrics. Troubleshooting quotes what the
programs really say."""
import re
import shutil
import subprocess
import urllib.request
from pathlib import Path

import pytest
import yaml
from client import binary

TOP = Path(__file__).parents[2]
ERRORS = (TOP / "docs/reference/errors.md").read_text()
CONFIGURATION = (TOP / "docs/reference/configuration.md").read_text()
FLAGS = (TOP / "docs/reference/flags.md").read_text()
TROUBLE = (TOP / "docs/troubleshooting.md").read_text()
_shipped = []


def sources(*folders):
    """The C of the programs, without tests, with strings joined that the compiler joins."""
    for folder in folders:
        for path in sorted((TOP / folder).rglob("*.[ch]")):
            if not path.stem.endswith("_test"):
                yield path, re.sub(r'"[\s\\]*\n\s*"', "", path.read_text())


def is_shipped(text):
    """Is this text in a program or in the library? Parts of src/ that no program uses yet say nothing to users."""
    if not _shipped:
        folder = Path(binary("belfryd")).parent
        _shipped.append(b"".join(path.read_bytes() for path in (folder / "belfryd", folder / "belfryctl", folder / "../lib/libbelfry.so")))
    return text.encode() in _shipped[0]


def rows(section):
    """The cells of each row of a section's table."""
    text = ERRORS.split(f"\n## {section}\n")[1].split("\n## ")[0]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in text.splitlines()
            if line.startswith("|") and not line.startswith("|---")][1:]


def test_every_code_of_the_library_is_there_with_its_sentence():
    table = (TOP / "include/belfry/err.h").read_text().split("#define BELFRY_ERR_TABLE(X)")[1].split("/* clang-format on */")[0]
    codes = re.findall(r'X\((\w+),\s*(\d+),[\s\\]*"([^"]*)"\)', table)
    assert len(codes) >= 23
    written = {row[0].strip("`"): (row[1], row[2]) for row in rows("Codes of libbelfry")}
    assert written == {name: (value, sentence) for name, value, sentence in codes}
    assert all(len(row) == 4 and row[3] for row in rows("Codes of libbelfry")), "each says what to do"


def test_every_exit_code_is_there():
    written = {(row[0], row[1]) for row in rows("Exit codes")}
    codes = {("belfryctl", value) for value in re.findall(r"EXIT_\w+ = (\d+)", (TOP / "src/cli/out/report.h").read_text())}
    codes |= {("belfryd", value) for value in re.findall(r"EXIT_\w+ = (\d+)", (TOP / "src/main/belfryd.c").read_text())}
    assert len(codes) == 10 and written == codes


QUOTED = 84  # characters of a message that must be on the page: the longest go on with what to do


def messages():
    """Texts for clients, up to what is filled in."""
    found = set()
    for path, text in sources("src"):
        for message in re.findall(r'"(belfry: [^"]*)"', text):
            found.add(message.partition("%")[0].removesuffix("\\n").rstrip()[:QUOTED])
    return {message for message in found if message != "belfry:" and "..." not in message}


def test_every_message_to_clients_is_there():
    assert len(messages()) > 50
    missing = [message for message in messages() if message not in ERRORS]
    assert not missing, "\n".join(missing)


def test_every_message_of_the_page_is_one_of_the_programs():
    """What stands in capitals is filled in; circles and users of tiers are put together from pieces."""
    text = "\n".join(text for _, text in sources("src"))
    for quoted in re.findall(r"`(belfry: [^`]*)`", ERRORS + TROUBLE):
        pieces = [piece.strip() for piece in re.split(r"\b[A-Z]{2,}\b|\bN\b|\.\.\.|belfry-user|belfry-via", quoted.removeprefix("belfry:"))]
        for piece in pieces:
            assert len(piece) < 5 or piece in text, f"{quoted}: {piece!r} is not in src"


def events():
    """(event, level) of all log lines at warn and error."""
    found = set()
    for path, text in sources("src"):
        for level, rest in re.findall(r"BELFRY_LOG_(WARN|ERROR)(?: : BELFRY_LOG_DEBUG)?,([^;]*?);", text, re.S):
            words = re.findall(r'"([a-z][a-z_]*)"', rest.split('="')[0].split("=\\\"")[0])
            found.update((word, level.lower()) for word in words[:2 if "?" in rest.split(",")[0] else 1])
    return found


def test_every_log_line_at_warn_and_error_is_there():
    assert len(events()) > 30, events()
    written = {}
    for row in rows("Log lines at warn and error"):
        for name in re.findall(r"`([a-z_]+)`", row[0]):
            written[name] = row[1]
    shipped = {event for event in events() if is_shipped(event[0])}
    assert len(shipped) > 30, shipped
    missing = {event for event in shipped if written.get(event[0]) != event[1]}
    assert not missing, missing
    text = "\n".join(text for _, text in sources("src"))
    unknown = [name for name in written if f'"{name}"' not in text]
    assert not unknown, unknown


def print_config(*words):
    return subprocess.run([binary("belfryd"), *words, "--print-config"], capture_output=True, text=True, check=True,
                          env={"PATH": "/usr/bin:/bin", "HOME": "/nonexistent"}).stdout


def test_every_key_of_the_file_is_there():
    keys = re.findall(r"^(?:# )?([a-z][a-z-]*):", print_config(), re.M)
    assert len(keys) > 40
    table = CONFIGURATION.split("\n## Keys\n")[1].split("\nA listener is")[0]
    written = re.findall(r"`([a-z][a-z-]*)`", "\n".join(line.split(" | ")[0] for line in table.splitlines()))
    assert sorted(written) == sorted(keys)


def test_the_keys_of_listeners_and_resources_are_there():
    for option in re.findall(r"^\| `([a-z-]+)(?:=[^`]*)?` \|", FLAGS.split("### Options of a listener")[1].split("\n## ")[0], re.M):
        assert f"`{option}`" in CONFIGURATION, option


def test_the_sample_of_the_page_is_read(tmp_path):
    sample = CONFIGURATION.split("```yaml\n")[1].split("```")[0]
    shutil.copy(TOP / "examples/kubernetes/configs.yaml", tmp_path)
    (tmp_path / "belfryd.yaml").write_text(sample.replace("/etc/belfry/configs.yaml", str(tmp_path / "configs.yaml")))
    said = print_config("--config", str(tmp_path / "belfryd.yaml"))
    for key in yaml.safe_load(sample):
        assert re.search(rf"^{key}:.*# .*belfryd.yaml|^{key}:.*# file", said, re.M), f"{key} in\n{said}"


def test_every_metric_of_a_running_tier_is_there(tier):
    with urllib.request.urlopen(f"http://127.0.0.1:{tier.admin_port}/metrics", timeout=10) as reply:
        names = set(re.findall(r"^# TYPE (\S+)", reply.read().decode(), re.M))
    page = (TOP / "docs/metrics.md").read_text()
    assert len(names) > 100
    missing = [name for name in names if f"`{name}`" not in page]
    assert not missing, missing


def test_troubleshooting_quotes_what_the_programs_say():
    """Quotes of log events and of sentences: each is in the source, but for texts of etcd and of etcdctl."""
    text = "\n".join(text for _, text in sources("src"))
    for event in re.findall(r"`event=([a-z_]+)`", TROUBLE):
        assert f'"{event}"' in text, event
    foreign = {"etcdserver: no leader", "etcdserver: permission denied", "etcdserver: user name is empty", "connection refused",
               "etcdserver: mvcc: required revision has been compacted", "context deadline exceeded", "permission denied"}
    n = 0
    for quoted in re.findall(r"`([^`\n]*)`", TROUBLE):
        if quoted.count(" ") < 2 or quoted in foreign or quoted.startswith(("belfry", "curl", "etcdctl", "event=")):
            continue
        for piece in re.split(r"\bN\b|\bURL\b|\bPATH\b|\bNAME\b|\(|\)", quoted):
            assert len(piece.strip()) < 6 or piece.strip() in text, f"{quoted!r}: {piece!r} is not in src"
        n += 1
    assert n >= 8
    for name in re.findall(r"`(belfry_[a-z_]+)", TROUBLE + ERRORS):
        assert f"`{name}`" in (TOP / "docs/metrics.md").read_text() or name in (TOP / "docs/api.md").read_text(), name
