"""What the benches say with --output json, as panels of charts. Nothing here reads a file or runs a program.

A chart has a name (its file), a title, a text for the page, and panels. A bench that measured less (--quick, or without a peer)
has fewer panels or bars; a chart without panels is left out.
"""
import collections

from pictures.charts import Bar, Panel, Ratio, beats, ratio

Chart = collections.namedtuple("Chart", "name title text panels")

# a server's name in the JSON -> (name on the page, role of the palette, is it a limit)
SERVERS = {
    "bare": ("bare limit", "bare", True),
    "answered": ("fair limit", "bare", True),
    "nghttpd": ("nghttpd", "bare", True),
    "etcd": ("etcd", "etcd", False),
    "grpc-proxy": ("grpc-proxy", "proxy", False),
    "kube-apiserver": ("kube-apiserver", "kube", False),
    "client-go": ("client-go", "kube", False),
    "belfryd": ("belfryd", "tier", False),
}
OURS = "belfryd"
HIGHER = ("1/s", "rev/s", "per s")  # units of which more is better
UNITS = {"us CPU": "us", "rev/s": "per s", "x RssAnon": "x", "1/s": "per s"}


def bar(server, value, name=None):
    title, role, limit = SERVERS[server]
    return Bar(name or title, role, value, limit)


def panel_of_row(row, title=None, higher=False):
    """A row of a bench that has a column per server; None: ours was not measured."""
    bars = [bar(server, row[server]) for server in SERVERS if row.get(server) is not None]
    if row.get(OURS) is None:
        return None
    return Panel(title or row["work"], UNITS.get(row["unit"], row["unit"]), bars, OURS, higher, said(row["must"]),
                 row["verdict"].lower())


def said(must):
    """What must be reached, with the names of the page."""
    for name in ("bare", "answered"):
        must = must.replace(f" x {name}", f" x {SERVERS[name][0]}")
    return "" if must == "-" else must


def panels(result, *wanted, higher=False):
    """`wanted`: (beginning of the row's name, title or None)"""
    found = []
    for beginning, title in wanted:
        rows = [row for row in result["rows"] if row["work"].startswith(beginning)]
        found += [panel_of_row(row, title and title.format(work=row["work"]), higher) for row in rows]
    return [panel for panel in found if panel is not None]


def value_of(result, beginning):
    """Of a bench whose rows have one value each."""
    return next((row for row in result["rows"] if row["work"].startswith(beginning)), None)


def fanout(result):
    cpu = [(f"{n}{how}", None) for n in ("1,000 connections, ", "8,000 connections, ", "10,000 watchers, 10 streams, ")
           for how in ("paced", "burst")]
    yield Chart("fanout-cpu", "etcd's API: CPU of the server per delivery",
                "Each connection has one watch, or each of 10 streams has 1,000. *Paced*: the next put when every watcher has the "
                "last. *Burst*: 16 puts under way.", panels(result, *cpu))
    yield Chart("fanout-memory", "etcd's API: memory", "RssAnon of the server that was just started, before and after.",
                panels(result, ("idle watcher", "an idle watcher on a shared stream"),
                       ("idle connection", "an {work}"), ("watcher, 1,000,000", "a watcher, of 1,000,000")))
    yield Chart("fanout-latency", "etcd's API: mean time from put to delivery, 1,000 connections", "",
                panels(result, ("mean latency, 1,000, paced", "paced"), ("mean latency, 1,000, burst", "burst of 200")))
    yield Chart("fanout-replay", "etcd's API: a watcher that starts in the past", "",
                panels(result, ("replay", "{work}"), higher=True))


def kube(result):
    yield Chart("kube-cpu", "Kubernetes' API: CPU of the server per delivery",
                "List and watch over HTTP/1.1, one watch per connection, beside the watch cache of a real kube-apiserver.",
                panels(result, *((f"{n} watchers, {how}", None) for n in ("1,000", "4,000") for how in ("paced", "burst")),
                       ("event of one of", "an {work}")))
    yield Chart("kube-ended", "Kubernetes' API: watches that the server ended because they were slow", "",
                ended_panels(result))
    yield Chart("kube-memory", "Kubernetes' API: memory",
                "Anonymous memory is what a program allocated. Resident memory also counts the pages of files that it maps: belfryd "
                "reads its objects from a mapped file, and the kernel can take these pages back.",
                panels(result, ("idle watcher", "an {work}"), ("its memory at most", "while all objects are listed: anonymous memory"),
                       ("the same, of all resident pages", "while all objects are listed: resident memory")))
    yield Chart("kube-list", "Kubernetes' API: a list of all objects", "",
                panels(result, ("list of", "{work}: time"), ("its CPU", "CPU of the server")))
    yield Chart("kube-latency", "Kubernetes' API: mean time from put to delivery", "",
                panels(result, *((f"mean latency, {n}, {how}", f"{n} watchers, {how}") for n in ("1,000", "4,000")
                                 for how in ("paced", "burst"))))


def ended_panels(result):
    """The row says only "that burst": it is the burst of the row before."""
    burst, found = "", []
    for row in result["rows"]:
        if row["work"].endswith("burst") and "watchers" in row["work"]:
            burst = row["work"]
        elif row["work"].startswith("watches ended"):
            found.append(panel_of_row(row, burst))
    return [panel for panel in found if panel is not None]


# what a read bench asked for -> the chart that has the figure
READS_MUST = {"CPU of belfryd": "cpu", "CPU of etcd": "etcd", "p99": "p99"}


def reads_must(result):
    """(work, chart) -> (must, verdict, the row's name). A row is "WORK: FIGURE", or "WORK: FIGURE, WHY at most"."""
    found = {}
    for row in result["rows"]:
        work, _, figure = row["work"].partition(": ")
        chart = next((chart for beginning, chart in READS_MUST.items() if figure.startswith(beginning)), None)
        if chart:
            found[work, chart] = (f"<= {row['must']:.3g}", row["verdict"].lower(), row["work"])
    return found


def reads(result):
    asked = reads_must(result)
    works = list(dict.fromkeys(row["work"] for row in result["costs"]))

    def figures(chart, unit, figure, higher=False):
        for work in works:
            rows = {row["server"]: row for row in result["costs"] if row["work"] == work}
            bars = [bar(server, max(0, value)) for server in SERVERS
                    if (value := figure(rows.get(server, {}), server)) is not None]
            if OURS in rows and len(bars) > 1:
                yield Panel(work, unit, bars, OURS, higher, *asked.get((work, chart), ("", ""))[:2])

    def of_etcd(row, server):
        return None if server == "nghttpd" else row.get("cpu_us") if server == "etcd" else row.get("etcd_cpu_us")
    yield Chart("reads-cpu", "Reads: CPU of the server per read",
                "128 reads under way on 16 connections; linearizable unless the title says serializable. nghttpd sends a file with "
                "the bytes of the answer: the limit.", list(figures("cpu", "us", lambda row, _: row.get("cpu_us"))))
    yield Chart("reads-etcd", "Reads: CPU of etcd per read",
                "The work that remains for etcd when a proxy or a tier answers. belfryd asks etcd for its revision, once for all reads "
                "that wait. The CPU that etcd uses without reads is subtracted.", list(figures("etcd", "us", of_etcd)))
    yield Chart("reads-rate", "Reads per second", "", list(figures("rate", "per s", lambda row, _: row.get("reads_per_s"), True)))
    yield Chart("reads-p50", "Reads: median time", "", list(figures("p50", "ms", lambda row, _: row.get("latency_p50_ms"))))
    yield Chart("reads-p99", "Reads: 99th percentile of the time", "", list(figures("p99", "ms", lambda row, _: row.get("latency_p99_ms"))))


def gateway(result):
    yield Chart("gateway", "etcd's JSON gateway: watches over HTTP/1.1", "",
                panels(result, ("1,000 watches, paced", "CPU per delivery, {work}"),
                       ("1,000 watches, burst", "CPU per delivery, {work}"), ("idle watch", "memory of an {work}")))


def listwatch(result):
    direct, tiers = result["median"]["direct"], result["median"]["tiers"]
    n = f"{direct['deliveries'] / 10:,.0f}" if "deliveries" in direct else "many"

    def both(title, unit, key):
        return Panel(title, unit, [bar("etcd", direct[key], "etcd alone"), bar(OURS, tiers[key], "with two tiers")], "with two tiers", False)
    yield Chart("listwatch", f"A fleet starts: {n} clients list 1,000 keys each, then watch",
                "What etcd does for it, alone and behind two tiers.",
                [both("CPU of etcd until all clients watch", "s", "etcd_up_cpu_s"),
                 both("Ranges that etcd answers", "Ranges", "etcd_ranges"), both("until all clients watch", "s", "up_s"),
                 both("a client's list and watch, p99", "ms", "latency_p99_ms")])


def coldstart(result):
    n = len(result["ready_s"])
    sent, one_sent = value_of(result, "bytes that etcd"), value_of(result, "the same for one leaf")
    cpu, one_cpu = value_of(result, "CPU of etcd for all"), value_of(result, "CPU of etcd for one")
    names = f"{n} under a root", "1 on etcd itself"

    def both(title, unit, many, one):
        return Panel(title, unit, [bar("etcd", one["value"], names[1]), bar(OURS, many["value"], names[0])], names[0])
    yield Chart("coldstart", f"{n} empty tiers start at once",
                "What etcd does for all of them under a root, beside what it does for one without a root.",
                [both("bytes that etcd sends", "bytes", sent, one_sent), both("CPU of etcd", "ms", cpu, one_cpu)])


def stack(result):
    levels = ("etcd", "etcd itself"), ("t1", "one tier"), ("t2", "two tiers"), ("t3", "three tiers")
    found = []
    for n in (100, 1):
        mine = result.get("latency", {}).get(f"watchers_{n}")
        if mine:
            found.append(Panel(f"{n} watcher{'s' if n > 1 else ''}, paced", "ms",
                               [bar("etcd" if level == "etcd" else OURS, mine[level]["p50_ms"], name) for level, name in levels]))
    yield Chart("stack-latency", "Tiers behind tiers: median time from put to delivery", "", found)
    storms = result.get("storm", {})
    rows = [(name, storms[name]) for name in ("kill", "drain") if name in storms]
    text = {"kill": "the leaf is killed", "drain": "the leaf is drained in 5 s"}
    yield Chart("stack-storm", "Tiers behind tiers: a leaf dies, until every watcher has the newest put again",
                "The leaf starts again as soon as it has ended; nothing is listed, lost or doubled.",
                [Panel(text[name], "s", [bar(OURS, storm["resumed_s"], f"{storm['watchers']:,.0f} watchers"
                                             if "watchers" in storm else "all watchers")], None, False, "<= 10 s",
                       "met" if storm["resumed_s"] <= 10 else "missed") for name, storm in rows])


TLS_TITLES = {"the same, after 256 KiB": "idle connection with one watch, after 256 KiB",
              "connection, full: CPU": "CPU of a connection, full handshake",
              "connection, full, certificates of both sides: CPU": "CPU of a connection, full handshake, certificates of both sides",
              "connection, resumed: CPU": "CPU of a connection, resumed session"}


def tls(result):
    found = []
    for row in result["rows"]:
        if row["plain"] is not None and row["tls"] is not None:
            must = "" if row["must"] is None else f"<= {row['must']:.3g}"
            title = TLS_TITLES.get(row["work"], row["work"])
            found.append(Panel(title, row["unit"], [Bar("plain", "bare", row["plain"], False),
                                                    Bar("TLS", "tier", row["tls"], False)], "plain", False, must,
                               row["verdict"].lower()))
    yield Chart("tls", "belfryd with TLS, beside belfryd without", "", found)


def many(result):
    crowds = list(dict.fromkeys(row["work"].split(": ")[0] for row in result["rows"]))
    wanted = {"memory of a watch": None, "creates a second": "creates per second", "CPU of a create": None,
              "CPU of a put and its delivery, burst": None, "the same, one at a time": "CPU of a put and its delivery, one at a time",
              "put to delivery, one at a time, p50": "put to delivery, one at a time, median",
              "the same, p99": "put to delivery, one at a time, 99th percentile"}
    found = []
    for crowd in crowds:
        rows = {row["work"].removeprefix(f"{crowd}: "): row for row in result["rows"] if row["work"].startswith(f"{crowd}: ")}
        watches = rows.get("watches created", {})
        alone = [server for server in SERVERS if watches.get(server) == watches.get(OURS)] == [OURS]
        for name in list(wanted)[:1] if alone else wanted:
            row = rows.get(name)
            if row and row.get(OURS) is not None:
                title = wanted[name] or name
                # a server that did not get as far has fewer watches: its figures are of another crowd
                full = {server: value for server, value in row.items()
                        if server not in SERVERS or watches.get(server) == watches.get(OURS)}
                found.append(panel_of_row(full, f"{watches[OURS]:,.0f} watches: {title}", row["unit"] in HIGHER))
    yield Chart("many", "Many watches on few connections (etcd issue 9839)",
                "A server that could not create all watches in time has no bar.", found)


def informer(result):
    rows = result if isinstance(result, list) else result["rows"]
    store = next((row for row in rows if row["work"].startswith("a store of") and row["work"].endswith("http: over their bytes")), None)
    other = next((row for row in rows if row["work"].startswith("client-go")), None)
    bars = [bar("client-go", other["value"])] if other else []
    found = []
    if store:
        title = store["work"].removeprefix("a store of ").removesuffix(", http: over their bytes")
        found.append(Panel(f"{title}: memory, over their own bytes", "x", bars + [bar(OURS, store["value"], "libbelfry")],
                           "libbelfry", False, f"<= {store['must']}", store["verdict"].lower()))
    yield Chart("informer", "An informer's store", "", found)


# the order of the page: bench -> (its charts, what it is)
BENCHES = {
    "fanout": (fanout, "Watches over etcd's API"),
    "kube": (kube, "Watches over Kubernetes' API"),
    "gateway": (gateway, "Watches over JSON"),
    "reads": (reads, "Reads"),
    "listwatch": (listwatch, "A fleet that starts"),
    "coldstart": (coldstart, "Tiers that start empty"),
    "stack": (stack, "Tiers behind tiers"),
    "many": (many, "Many watches"),
    "tls": (tls, "TLS"),
    "informer": (informer, "Informers of libbelfry"),
}


def charts(bench, result):
    return [chart for chart in BENCHES[bench][0](result) if chart.panels]


# ---- the chart of ratios ----

# (group, bench, chart, beginning of the panel's title, the other, title)
SUMMARY = [
    ("etcd", "fanout", "fanout-replay", "replay", "etcd", "history replayed per second"),
    ("etcd", "listwatch", "listwatch", "CPU of etcd", "etcd alone", "CPU of etcd, while a fleet lists and watches"),
    ("etcd", "fanout", "fanout-cpu", "10,000 watchers, 10 streams, paced", "etcd", "CPU per delivery, 10,000 watchers on 10 connections"),
    ("etcd", "gateway", "gateway", "memory", "etcd", "memory of an idle watch over JSON"),
    ("etcd", "fanout", "fanout-memory", "an idle connection", "etcd", "memory of a connection with a watch"),
    ("etcd", "fanout", "fanout-cpu", "1,000 connections, burst", "etcd", "CPU per delivery, 1,000 connections, bursts"),
    ("etcd", "gateway", "gateway", "CPU per delivery, 1,000 watches, paced", "etcd", "CPU per delivery over JSON"),
    ("etcd", "fanout", "fanout-memory", "an idle watcher", "etcd", "memory of an idle watcher"),
    ("etcd", "reads", "reads-cpu", "1,000 keys", "etcd", "CPU per read of 1,000 keys"),
    ("etcd", "reads", "reads-cpu", "one key", "etcd", "CPU per linearizable read of one key"),
    ("etcd", "fanout", "fanout-cpu", "1,000 connections, paced", "etcd", "CPU per delivery, 1,000 connections, one by one"),
    ("etcd", "reads", "reads-rate", "one key", "etcd", "linearizable reads per second, 128 under way"),
    ("etcd", "reads", "reads-p50", "one key", "etcd", "median time of a linearizable read, 128 under way"),
    ("etcd", "many", "many", "30,000 watches: put to delivery, one at a time, median", "etcd",
     "median time from put to delivery, 30,000 watches, one put at a time"),
    ("kube-apiserver", "kube", "kube-memory", "while all objects are listed: anonymous", "kube-apiserver",
     "anonymous memory while all objects are listed"),
    ("kube-apiserver", "kube", "kube-memory", "while all objects are listed: resident", "kube-apiserver",
     "resident memory while all objects are listed"),
    ("kube-apiserver", "kube", "kube-memory", "an idle watcher", "kube-apiserver", "memory of an idle watcher"),
    ("kube-apiserver", "kube", "kube-list", "list of", "kube-apiserver", "time of a list of all objects"),
    ("kube-apiserver", "kube", "kube-cpu", "1,000 watchers, paced", "kube-apiserver", "CPU per delivery, one by one"),
]


def ratios(results):
    """[(group, [Ratio])]; `results`: bench -> result."""
    groups = collections.OrderedDict()
    for group, bench, name, beginning, peer, title in SUMMARY:
        chart = next((chart for chart in charts(bench, results[bench]) if chart.name == name), None) if bench in results else None
        panel = next((panel for panel in chart.panels if panel.title.startswith(beginning)), None) if chart else None
        other = next((bar_ for bar_ in panel.bars if bar_.name == peer), None) if panel else None
        value = ratio(panel, other) if other else None
        if value is not None:
            groups.setdefault(group, []).append(Ratio(title, group, other.role, value))
    return [(group, sorted(found, key=lambda each: -each.value)) for group, found in groups.items()]


# ---- every figure that has a peer ----
#
# Charts are a selection, made by hand. These are not: they follow the shape of a result, so a figure that a bench measures of belfryd
# and of another program is compared, whether a chart shows it or not.

NOT_COMPARED = {"tls": "plain belfryd is no other program",
                "upstream": "what etcd does for the tiers: it is in the figures of etcd"}
FIELDS = {"cpu_us": "CPU of the server", "etcd_cpu_us": "CPU of etcd", "etcd_ranges": "Ranges at etcd", "reads_per_s": "reads per second",
          "latency_p50_ms": "median time", "latency_p99_ms": "99th percentile of the time", "failed": "failed", "p50_ms": "median time",
          "p99_ms": "99th percentile of the time", "mean_ms": "mean time", "cpu_us_per_delivery": "CPU per delivery"}


def field_title(key):
    return FIELDS.get(key, key.replace("_", " "))


def field_unit(key):
    """(unit, is more better), by the name of a field."""
    if key.endswith("_per_s"):
        return "per s", True
    units = (("_ms", "ms"), ("_us", "us"), ("_s", "s"), ("_us_per_delivery", "us"), ("_us_per_client", "us"))
    return next((unit for ending, unit in units if key.endswith(ending)), ""), False


def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def named_rows(rows):
    """(title, row): "the same: X" and "its X" get the name of the row that they go on from. "the same, X" replaces its last words."""
    base = ""
    for row in rows:
        crowd, _, work = row["work"].rpartition(": ") if row["work"].count(" x ") == 1 else ("", "", row["work"])
        head = f"{crowd}: " if crowd else ""
        for beginning, joined in (("the same, ", f"{base.rpartition(', ')[0]}, " if ", " in base else f"{base}: "),
                                  ("the same: ", f"{base}: "), ("its ", f"{base}: ")):
            if work.startswith(beginning):
                yield f"{head}{joined}{work.removeprefix(beginning)}", row
                break
        else:
            base = work if work != "the same" else base
            yield f"{head}{base}", row


def compared_rows(result):
    """Of benches whose rows have a column per server. A row with the figures of an earlier one is left out: it has another bound."""
    seen = set()
    for title, row in named_rows(result["rows"]):
        values = tuple((server, row[server]) for server in SERVERS if is_number(row.get(server)))
        if OURS not in dict(values) or (values, row["unit"]) in seen:
            continue
        seen.add((values, row["unit"]))
        yield Panel(title, UNITS.get(row["unit"], row["unit"]), [bar(*each) for each in values], OURS,
                    row["unit"] in HIGHER or row["work"].endswith("created"))


def compared_fields(title, entries):
    """`entries`: [(server, its name, {field: value})], of which the last one is ours."""
    ours = entries[-1][1]
    for key, value in entries[-1][2].items():
        if not is_number(value) or any(word in key for word in NOT_COMPARED):
            continue
        unit, higher = field_unit(key)
        bars = [bar(server, max(0, fields[key]), name) for server, name, fields in entries if is_number(fields.get(key))]
        yield Panel(f"{title}: {field_title(key)}", unit, bars, ours, higher)


def compared_reads(result):
    for work in dict.fromkeys(row["work"] for row in result["costs"]):
        rows = {row["server"]: row for row in result["costs"] if row["work"] == work}
        if OURS not in rows:
            continue
        entries = [(server, SERVERS[server][0], dict(rows[server])) for server in SERVERS if server in rows]
        for server, _, fields in entries:  # a read that is answered elsewhere may cost etcd something as well
            parts = [fields.get("cpu_us"), 0 if server == "etcd" else fields.get("etcd_cpu_us")]
            fields["CPU of the server and of etcd together_us"] = sum(parts) if all(map(is_number, parts)) else None
        for panel in compared_fields(work, entries):
            yield panel._replace(title=panel.title.removesuffix(" us"))


def compared_stack(result):
    levels = {"t1": "one tier", "t2": "two tiers", "t3": "three tiers"}
    for crowd, mine in result.get("latency", {}).items():
        n = crowd.removeprefix("watchers_")
        for level, name in levels.items():
            if level in mine and "etcd" in mine:
                yield from compared_fields(f"{n} watcher{'s' if n != '1' else ''} through {name}",
                                           [("etcd", "etcd", mine["etcd"]), (OURS, OURS, mine[level])])


def compared_fleet(result):
    both = result["median"]
    yield from compared_fields("a fleet that starts", [("etcd", "etcd alone", both["direct"]), (OURS, "with two tiers", both["tiers"])])


COMPARED = {"fanout": compared_rows, "kube": compared_rows, "gateway": compared_rows, "many": compared_rows, "reads": compared_reads,
            "stack": compared_stack, "listwatch": compared_fleet}


def compared(bench, result):
    """Panels: every figure of a bench that has a peer. Where results are in no such shape, those of its charts."""
    if bench in NOT_COMPARED:
        return []
    if bench in COMPARED:
        found = COMPARED[bench](result)
    else:
        found = (panel for chart in charts(bench, result) for panel in chart.panels)
    return [panel for panel in found if any(not each.limit and each.name != panel.ours for each in panel.bars)]


def remark(result, panel, server):
    """What else a reader must know: that the other had not as many watches."""
    crowd = panel.title.split(": ")[0]
    created = next((row for row in result.get("rows", []) if row["work"] == f"{crowd}: watches created"), {})
    if is_number(created.get(server)) and created[server] != created.get(OURS):
        return f" (with {created[server]:,.0f} of {created[OURS]:,.0f} watches)"
    return ""


def worse(results):
    """Every figure in which another program is better than ours: (what the bench is, panel, bar, remark), the largest losses first;
    and how many figures were compared."""
    found, n_compared = [], 0
    for bench in (bench for bench in BENCHES if bench in results):
        for panel in compared(bench, results[bench]):
            n_compared += 1
            found += [(BENCHES[bench][1], panel, each, remark(results[bench], panel, each.name)) for each in panel.bars
                      if not each.limit and beats(panel, each)]
    return sorted(found, key=lambda each: ratio(each[1], each[2]) or 0), n_compared
