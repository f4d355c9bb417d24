"""The report of a run: result.json has everything, report.md is the page, picture.svg the picture (picture.py)."""
import json
import os
import platform
import time
from collections import Counter

import growth
import picture
import procs
from checker import PROPERTIES
from client import binary
from etcd import PROGRAM as ETCD
from machine import PATHS

COMMAND = "tests/robustness/run"


def _said(argv):
    lines = procs.run(argv, check=False).stdout.decode().splitlines()
    return lines[0] if lines else "?"


def _time_of(samples, rev):
    """When etcd's head was first seen at `rev` or above; None: never."""
    return next((at for at, head in samples["etcd"] if head is not None and head >= rev), None)


def judgement(verdicts, samples):
    counts = Counter()
    for _, v, _ in verdicts:
        counts.update(v.counts)
    return {
        "violations": [{"property": prop, "rev": rev, "text": text, "record": record, "at_s": _time_of(samples, rev)}
                       for record, v, _ in verdicts for text, (rev, prop) in zip(v.texts, v.places)],
        "by_property": {p: counts[p] for p in PROPERTIES},
        "events": sum(v.n_events for _, v, _ in verdicts), "progress": sum(v.n_progress for _, v, _ in verdicts),
        "told_compacted": sum(n for _, _, n in verdicts),
    }


def result_of(machine, args, verdicts):
    return {
        "seed": args.seed, "soak": args.soak, "faults": args.faults, "levels": args.levels,
        "watchers": machine.counts["watchers"],
        "again": " ".join([COMMAND, f"--seed {args.seed}", *(["--soak"] if args.soak else []), f"--faults {args.faults}",
                           f"--tiers {args.tiers}", f"--watchers {args.watchers}", f"--revisions {args.revisions}",
                           *([f"--for {args.last_s}s"] if args.last_s else []),
                           *([f"--rate {args.rate}"] if args.rate else [])]),
        "when": time.strftime("%Y-%m-%d"),
        "machine": f"{platform.system()} {platform.release().split('-')[0]}, {os.cpu_count()} cores",
        "belfryd": _said([binary("belfryd"), "--version"]), "etcd": _said([ETCD, "--version"]),
        "seconds": machine.seconds(), "revisions": machine.truth.last_rev(), "written": dict(machine.written),
        "growth": {name: growth.judge(sizes, machine.seconds()) for name, sizes in machine.sampler.sizes.items()
                   if args.last_s},
        "rows": machine.rows, "samples": machine.sampler.seen, "most": machine.sampler.most,
        "trouble": machine.trouble, "reopened": machine.n_reopened,
        "counters": {name: {p: t.sums[p] for p in PATHS} for name, t in machine.tallies.items()},
        "newcomers": dict(machine.paths), "landed_lagging": machine.counts["landed on a lagging member"],
        "unused": machine.unused(), **judgement(verdicts, machine.sampler.seen),
    }


def failed(r):
    return bool(r["violations"] or r["trouble"] or (r["soak"] and r["unused"]))


def summary(r):
    slowest = max((t for row in r["rows"] for t in row.get("caught_up_s", {}).values()), default=0)
    done = sum("caught_up_s" in row for row in r["rows"])
    yield f"figure: robustness.faults={done}"
    yield f"figure: robustness.watchers={r['watchers']}"
    yield f"figure: robustness.revisions={r['revisions']}"
    yield f"figure: robustness.events_checked={r['events']}"
    yield f"figure: robustness.progress_checked={r['progress']}"
    yield f"figure: robustness.slowest_catch_up={slowest:.1f} s"
    yield f"figure: robustness.violations={sum(r['by_property'].values())}"
    yield f"figure: robustness.seconds={r['seconds']:.0f} s"
    for tier, grew in r["growth"].items():
        for name, v in grew.items():
            yield (f"figure: robustness.{name}.{tier}={v['middle_bytes'] / 2**20:.1f} MiB, "
                   f"{v['bytes_an_hour'] / 2**10:+.0f} KiB an hour, at most {v['most_bytes'] / 2**20:.1f} MiB")
    if r["unused"]:
        yield "paths that were not taken: " + ", ".join(f"{tier} {path}" for tier, path in r["unused"])
    for v in r["violations"][:20]:
        yield f"VIOLATION {v['record']}: {v['text']}"
    for at, text in r["trouble"]:
        yield f"TROUBLE at {at:.0f} s: {text}"


def _table(head, rows):
    return ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)] + ["| " + " | ".join(map(str, row)) + " |" for row in rows]


def _by_kind(r):
    """Of each kind of fault: how often, how long, and how long until all had caught up."""
    kinds = {}
    for row in r["rows"]:
        kinds.setdefault(row["fault"], []).append(row)
    for name, rows in sorted(kinds.items()):
        whole = [row for row in rows if "caught_up_s" in row]
        lasted = max((row["end_s"] - row["begin_s"] for row in whole), default=0)
        where = ", ".join(sorted({row["target"] for row in rows if row["target"]})) or "-"
        slow = [f"{max((row['caught_up_s'].get(t, 0) for row in whole), default=0):.1f}" for t in r["counters"]]
        yield [name, len(rows), where, f"{lasted:.1f}", *slow]


def page(r, picture_at="picture.svg"):
    tiers = list(r["counters"])
    verdict = "no violation" if not r["violations"] and not r["trouble"] else "VIOLATED"
    lines = [f"# Run with seed {r['seed']}: {verdict}", "",
             f"{r['when']}, {r['belfryd']}, {r['etcd']}, {r['machine']}; {r['seconds']:.0f} s.", "", f"    {r['again']}", "",
             f"![time line]({picture_at})", ""]
    lines += _table(["what", "how much"], [
        ["faults", sum("caught_up_s" in row for row in r["rows"])], ["watchers", r["watchers"]],
        ["revisions", f"{r['revisions']:,}"], ["events judged", f"{r['events']:,}"],
        ["progress judged", f"{r['progress']:,}"], ["watches told of a compaction, rightly", r["told_compacted"]],
        ["failovers to a member that lagged", r["landed_lagging"]], ["violations", sum(r["by_property"].values())]])
    lines += ["", "## Properties", ""]
    lines += _table(["property", "violations"], r["by_property"].items())
    lines += ["", "## Faults", "", "Seconds: the longest that one lasted, and the longest until every watcher of a level had "
              "what was written after it.", ""]
    lines += _table(["fault", "times", "where", "lasted", *(f"{t} caught up" for t in tiers)], _by_kind(r))
    lines += ["", "## Paths", "", "What each tier was driven through, counted by itself and added up over its lives.", ""]
    lines += _table(["path", *tiers], [[p, *(r["counters"][t][p] for t in tiers)] for p in PATHS])
    if r["growth"]:
        lines += ["", "## Memory and files", "", "After the first quarter of the run: the middle value, the slope of the nearest "
                  "straight line, and the most of the whole run. Nothing is done to `s`, so it is the one that is judged; the "
                  "others are restarted now and then.", ""]
        lines += _table(["tier", "what", "MiB", "KiB an hour", "most MiB"],
                        [[tier, name, f"{v['middle_bytes'] / 2**20:.1f}", f"{v['bytes_an_hour'] / 2**10:+.0f}",
                          f"{v['most_bytes'] / 2**20:.1f}"] for tier, grew in r["growth"].items() for name, v in grew.items()])
    if r["unused"]:
        lines += ["", "Not taken: " + ", ".join(f"{p} of {t}" for t, p in r["unused"]) + "."]
    for title, texts in (("Violations", [f"{v['text']} ({v['record']})" for v in r["violations"]]),
                         ("What did not hold", [f"at {at:.0f} s: {text}" for at, text in r["trouble"]])):
        if texts:
            lines += ["", f"## {title}", ""] + [f"- {text}" for text in texts[:100]]
    return "\n".join(lines) + "\n"


def publish(r, folder):
    """What docs/robustness.md shows: the page and the picture, without the numbers behind them."""
    folder.mkdir(exist_ok=True)
    (folder / "picture.svg").write_text(picture.draw(r))
    (folder / "report.md").write_text(page(r))


def write(r, folder):
    (folder / "result.json").write_text(json.dumps(r))
    (folder / "picture.svg").write_text(picture.draw(r))
    (folder / "report.md").write_text(page(r))
