"""Requests of the JSON gateway, made at random from what the code itself knows: the paths of src/serve/json/gateway_paths.c, the messages of
src/wire/*.proto. Each field comes in every form that JSON has for it, right and wrong; then the text may be damaged."""
import base64
import contextlib
import json
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent

KEYS = [b"", b"a", b"a", b"b", b"b", b"foo", b"foo1", b"foo2", b"z", b"\0", b"\xff\xfe", b"large-key/" + b"k" * 40]
ENDS = [b"", b"z", b"z", b"\0", b"\0", *KEYS]
NAMES = ["", "u1", "u2", "r1", "r2", "nobody", "\u00e9\u4e2d\U0001f600", 'q"\\/\n']
LEASES = [0, 0, 0, 71, 72, 73, 99, -1]
KNOWN_LEASES = {71, 72, 73}
# Addresses that no member can have and versions that nobody goes down to: a cluster of one must stay one, and what it is.
STRINGS = {"peerURLs": ["", "nonsense", "ftp://127.0.0.1:1", "http://127.0.0.1", "http://:x"], "version": ["", "9.9", "9.9.9", "x", "3.3.0", "3.5.0"]}


# ---- what there is

def _statements(text):
    return re.findall(r"[^;{}]+[;{]|\}", re.sub(r"//[^\n]*", "", text))


def _messages(text, messages, enums):
    """Of one file, into both: message -> [(name, type, is a list, oneof)], enum -> {name: number}."""
    stack = []  # (kind, name)
    for part in (" ".join(s.split()) for s in _statements(text)):
        if part == "}":
            stack.pop()
            continue
        words = part.rstrip("{; ").split()
        if part.endswith("{"):
            stack.append((words[0], words[1]))
            {"message": messages, "enum": enums}.get(words[0], {})[words[1]] = [] if words[0] == "message" else {}
        elif stack and stack[-1][0] == "enum":
            enums[stack[-1][1]][words[0]] = int(words[2])
        elif stack:
            oneof = stack[-1][1] if stack[-1][0] == "oneof" else None
            message = next(name for kind, name in reversed(stack) if kind == "message")
            is_list = words[0] == "repeated"
            kind, name = words[is_list:is_list + 2]
            messages[message].append((name, kind.rsplit(".", 1)[-1], is_list, oneof))


def read_protos():
    messages, enums = {}, {}
    for path in sorted((ROOT / "src/wire").glob("*.proto")):
        _messages(path.read_text(), messages, enums)
    return messages, enums


def read_paths(messages):
    """{path: (its request's message, are its answers lines)}"""
    text = (ROOT / "src/serve/json/gateway_paths.c").read_text()
    names = {re.sub(r"[^a-z]", "", name.lower()): name for name in messages}
    rows = re.findall(r'(ONE|TALKS|TELLS)\(\s*"([^"]+)",\s*"[^"]+",\s*\w+?__(\w+),', text)
    return {path: (names[request.replace("_", "")], kind != "ONE") for kind, path, request in rows}


MESSAGES, ENUMS = read_protos()
PATHS = read_paths(MESSAGES)

# How often, where it is not once: what is asked most, and what takes long or tells little.
WEIGHTS = {"/kv/range": 10, "/kv/txn": 12, "/kv/put": 16, "/kv/deleterange": 1.5, "/lease/grant": 3, "/maintenance/snapshot": 0.1,
           "/maintenance/defragment": 0.1, "/election/observe": 0.1, "/watch": 0}


# What makes most answers empty, or is needed for one, comes less often, or more.
SHARES = {"min_mod_revision": 0.1, "max_mod_revision": 0.1, "min_create_revision": 0.1, "max_create_revision": 0.1, "revision": 0.3, "count_only": 0.2,
          "key": 0.9, "ignore_value": 0.15, "ignore_lease": 0.15}


# ---- forms

def camel(name):
    return re.sub(r"_([a-z])", lambda m: m[1].upper(), name)


class Maker:
    """Makes requests. `odd`: the share of values that come in a form that few send."""

    def __init__(self, rng):
        self.rng = rng
        self.odd = 0.0
        self.revision = 1  # about where the store is

    def request(self, path=None):
        """(path, body)"""
        rng = self.rng
        while True:
            chosen = path or rng.choices(list(PATHS), [WEIGHTS.get(p, 1) for p in PATHS])[0]
            self.odd = rng.choice([0, 0, 0, 0.1, 0.3])
            body = self.message(PATHS[chosen][0])
            if chosen == "/lease/keepalive":
                body += rng.choice(["", "", "\n", " "]) + "".join(self.message("LeaseKeepAliveRequest") for _ in range(rng.randrange(3)))
            if rng.random() < 0.15:
                body = self.damage(body)
            if is_safe(chosen, body):
                return chosen, body

    def watches(self):
        """A body of /watch: what is asked for, one after the other."""
        rng = self.rng
        self.odd = rng.choice([0, 0, 0, 0.1, 0.3])
        while True:
            body = "".join(self.message("WatchRequest") + self.space() for _ in range(rng.choice([1, 1, 2, 3])))
            body = self.damage(body) if rng.random() < 0.1 else body
            if is_safe("/watch", body):
                return body

    def space(self):
        return self.rng.choice([" ", "\n", "\t", "\r\n"]) if self.rng.random() < 0.03 else ""

    def name(self, name):
        rng = self.rng
        name = camel(name) if rng.random() < 0.4 else name
        if rng.random() < self.odd / 4:
            name = rng.choice([name.upper(), name.capitalize(), name + " ", name.replace("_", ""), name + "_"])
        if rng.random() < self.odd / 4 and "arget" not in name and name not in ("action", "alarm"):  # is_safe() looks for them
            name = "\\u%04x" % ord(name[0]) + name[1:]
        return f'"{name}"'

    def message(self, name, depth=0):
        rng, fields = self.rng, MESSAGES[name]
        often = 0.5 if len(fields) > 3 else 0.85
        chosen = [f for f in fields if rng.random() < SHARES.get(f[0], often)]
        oneofs = {}
        for f in fields:
            if f[3]:
                oneofs.setdefault(f[3], []).append(f)
        for choices in oneofs.values():
            chosen = [f for f in chosen if f not in choices] + rng.sample(choices, 2 if rng.random() < self.odd / 4 else 1)
        rng.shuffle(chosen)
        members = [f"{self.name(f[0])}{self.space()}:{self.space()}{self.field(f, depth)}" for f in chosen]
        if members and rng.random() < self.odd / 3:
            members.append(rng.choice(members))  # twice
        if rng.random() < self.odd:
            members.insert(rng.randrange(len(members) + 1), rng.choice(['"no":1', '"no":{"a":[{}]}', '"no":null', '"":"x"', '"no":"\\u00e9"', '"@type":"x"']))
        return "{" + self.space() + f",{self.space()}".join(members) + self.space() + "}"

    def field(self, field, depth):
        name, kind, is_list, _ = field
        rng = self.rng
        if rng.random() < self.odd / 3:
            return rng.choice(["null", "true", "false", "0", "1", "-1", '""', '"x"', "{}", "[]", "[null]", "[{}]", '{"a":1}', "1.5", '"AA=="'])
        if is_list:
            return "[" + ",".join(self.value(name, kind, depth) for _ in range(rng.choice([0, 1, 1, 2, 3]))) + "]"
        return self.value(name, kind, depth)

    def value(self, name, kind, depth):
        if kind in MESSAGES:
            return self.message(kind, depth + 1) if depth < 5 else "{}"
        if kind in ENUMS:
            return self.enum(name, ENUMS[kind])
        return getattr(self, "_" + kind)(name)

    def enum(self, name, values):
        rng = self.rng
        known, number = rng.choice(list(values.items()))
        forms = [f'"{known}"', f'"{known}"', str(number)]
        if rng.random() < self.odd:
            forms = ['"NONE_SUCH"', f'"{known.lower()}"', f"{number}.0", f"{number}e0", '""', "{}", "true", "null"]
            forms += [f'"{number}"', "99", "-1", "4294967296", "1.5"] if name not in ("sort_target", "action", "alarm") else []
        return rng.choice(forms)

    def _bool(self, _name):
        forms = ['"true"', "1", "0", "null", '""', "TRUE"] if self.rng.random() < self.odd else ["true", "true", "false"]
        return self.rng.choice(forms)

    def number(self, name):
        rng = self.rng
        if name.endswith("TTL"):
            return rng.choice([600, 900, 1, 0, -1, 9000000001])
        if name in ("ID", "lease"):
            return rng.choice(LEASES)
        if "revision" in name or name == "rev":
            return rng.choice([0, 0, 1, 2, -1, self.revision, self.revision - 3, rng.randrange(1, self.revision + 3), 99999999])
        return rng.choice([0, 1, 2, 3, 10, -1])

    def whole(self, number):
        """Forms of a whole number."""
        rng = self.rng
        if rng.random() >= self.odd:
            return rng.choice([str(number), f'"{number}"'])
        return rng.choice([f"{number}.0", f"{number}e0", f"{number}0e-1", f'"{number}.00"', f'"{number}E+0"', f"{number}.5", f'" {number}"', f'"{number} "',
                           f'"+{number}"', f"+{number}", f"0{number}", f'"0{number}"', '"0x1"', "1e2", '"1e2"', "1e400", "-0", '"-0"', "9223372036854775807",
                           '"-9223372036854775808"', "9223372036854775808", "18446744073709551615", '"18446744073709551616"', "1e19", "null", '""', "true",
                           "{}", '"NaN"', "0.1e1", "12345678901234567890123456789e-20", "1.", ".5", "1e", "0e999999999", f'"{number}\\u2003"',
                           f'"{number}_"', f'"{number}e+"', f'"\\u003{abs(number) % 10}"'])

    def _int64(self, name):
        return self.whole(self.number(name))

    _uint64 = _uint32 = _int64

    def _bytes(self, name):
        rng = self.rng
        raw = rng.choice(ENDS if name == "range_end" else KEYS) if name in ("key", "range_end", "name") else rng.randbytes(rng.choice([0, 1, 2, 3, 5, 30]))
        text = base64.b64encode(raw).decode()
        if rng.random() < self.odd:
            url = base64.urlsafe_b64encode(b"\xff\xfe" + raw).decode()
            text = rng.choice([url, url.rstrip("="), text.rstrip("="), text + "=", text + "\\n", text[:1] + "\\r\\n" + text[1:], "!" + text, text + "Z", "Zg",
                               "Zh==", "Z", "====", "Zm9v====", "Zm 9v", "+/-_", "\\u005am9v", "Zm9vZg==Zm9v", "Zm9v\\t", "\\u00e9", "Zg=\\n=", "Zg==\\n"])
        return f'"{text}"'

    def _string(self, name):
        rng = self.rng
        text = rng.choice(STRINGS.get(name, NAMES))
        forms = [json.dumps(text), json.dumps(text, ensure_ascii=False)]
        if rng.random() < self.odd:
            forms = ['"\\ud83d\\ude00"', '"\\ud83d"', '"\\ude00x"', '"\\x41"', '"a\nb"', '"\\u12"', "1", '"\\u0000"', '"\x7f"', "'u1'", '"\\/\\b\\f"']
        return rng.choice(forms)

    # ---- damage

    def damage(self, body):
        rng = self.rng
        at = rng.randrange(len(body) + 1)
        piece = rng.choice(list('{}[],:"\\0129-.eE +=/*\0\x7f') + ["null", "true", "//c\n", "/*c*/", "\u00e9", "\ufeff", "NaN", "{}", ",,", "\\u"])
        return rng.choice([lambda: body[:at], lambda: body[:at] + piece + body[at:], lambda: body[:at] + body[at + 1:], lambda: body[:at] + piece + body[at + 1:],
                           lambda: body + piece, lambda: piece + body, lambda: body + rng.choice([" and more", "}", "]", "{}", "\0"]), lambda: f"[{body}]",
                           lambda: json.dumps(body), lambda: body.replace('"', "'"), lambda: "", lambda: " \n", lambda: body[:-1] + ",}",
                           lambda: rng.choice(["null", "true", "0", '""', "[]", "{}", "{", "[{}]"])])()


# Fields whose unknown numbers end an etcd: sorts before 3.6 (docs/compatibility.md, read-sort-target), alarms in 3.5.
ENDING = {"/kv/range": "ort_?[tT]arget", "/kv/txn": "ort_?[tT]arget", "/maintenance/alarm": "action|alarm"}


# A Txn that deletes all keys from one on, then changes one of them without its value or its lease, ends every member of an etcd
# (docs/compatibility.md, txn-from-key). One that just puts such a key may do so after a compaction. The end of such a delete is a zero byte.
DELETES, PUTS, FROM_KEY = re.compile("elete_?[rR]ange"), re.compile("est_?[pP]ut"), re.compile(r'ange_?[eE]nd"\s*:\s*"[A\\]')


# A number and something else in one string: older builds of etcd read the number (docs/compatibility.md, gateway-integers), and the
# stores would not be the same any more.
LOOSE = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]*)?([^0-9A-Za-z+.\-_].*)", re.S)


def is_loose(body):
    for token in re.findall(r'"((?:[^"\\]|\\.)*)"', body, re.S):
        with contextlib.suppress(ValueError):
            found = LOOSE.fullmatch(json.loads(f'"{token}"', strict=False))
            if found and found[1].strip():
                return True
    return False


def is_safe(path, body):
    """False: the request would end an etcd, or keep it from serving others: while a watch has a negative start, etcd before 3.5.24 sends
    no history to any watch (docs/compatibility.md, negative-start). Or the two stores would differ from then on, by a line of that page."""
    if is_loose(body):
        return False
    if path == "/watch":
        return re.search(r'tart_?[rR]evision"?\s*:\s*"?-', body) is None
    if path == "/kv/txn" and all(pattern.search(body) for pattern in (DELETES, PUTS, FROM_KEY)):
        return False
    if path not in ENDING:
        return True
    most = 2 if path == "/maintenance/alarm" else 4
    return all(re.match(rf'"\s*:\s*(?:[0-{most}](?:\.0|e0)?\s*[,}}]|[A-Zn{{"tf\[])', after) for after in re.split(ENDING[path], body)[1:])
