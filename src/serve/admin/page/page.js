/* The page of the admin address. It shows what /events sends every second, /debug/hour, /debug/log, and on request
 * /debug/clients and /debug/watchers. Keys, names and log lines are foreign text: they become text nodes, never HTML. */
"use strict";

const $ = id => document.getElementById(id);

/* ---- texts ---- */

const whole = new Intl.NumberFormat("en", {maximumFractionDigits: 0});

function count(n) { return whole.format(n); }

/* Three digits that count: 0.42, 8.1, 123, 12,345. */
function rate(n) {
  if (n === 0 || n >= 99.95) return whole.format(n);
  return n.toFixed(n >= 9.995 ? 1 : 2);
}

function bytes(n) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  for (; n >= 1023.5 && unit < 4; unit++) n /= 1024;
  return (unit === 0 || n >= 99.95 ? n.toFixed(0) : n.toPrecision(3)) + " " + units[unit];
}

function ms(n) {
  if (n < 1) return (n * 1000).toFixed(0) + " µs";
  if (n < 1000) return (n < 9.95 ? n.toFixed(1).replace(".0", "") : n.toFixed(0)) + " ms";
  return n < 60000 ? (n / 1000).toFixed(1) + " s" : age(n);
}

function age(n) {
  const s = Math.floor(n / 1000), m = Math.floor(s / 60), h = Math.floor(m / 60), d = Math.floor(h / 24);
  if (d > 0) return `${d} d ${h % 24} h`;
  if (h > 0) return `${h} h ${m % 60} min`;
  return m > 0 ? `${m} min ${s % 60} s` : `${s} s`;
}

function clock(s, seconds = true) {
  const form = {hour: "2-digit", minute: "2-digit", hour12: false};
  if (seconds) form.second = "2-digit";
  return new Date(s * 1000).toLocaleTimeString("en-GB", form);
}

const forms = {count, rate, bytes, ms, limit: n => n > 0 ? bytes(n) : "no limit"};

/* ---- elements ---- */

/* An element with attributes and children; texts become text nodes. */
function make(tag, attributes = {}, ...children) {
  const e = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) e.setAttribute(name, value);
  e.append(...children);
  return e;
}

function draw(tag, attributes = {}, ...children) {
  const e = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) e.setAttribute(name, value);
  e.append(...children);
  return e;
}

function say(e, text) {
  if (e.textContent !== text) e.textContent = text;
}

/* A number as people read it; data-v has it exactly. */
function show(e, value, form) {
  e.dataset.v = value ?? "";
  say(e, value == null ? "–" : form(value));
}

/* ---- numbers ---- */

let numbers = null, before = null, numbersAt = 0, beforeAt = 0;

/* "a.b+a.c": the sum of members; null when one is missing. */
function lookUp(document_, path) {
  let sum = 0;
  for (const one of path.split("+")) {
    const value = one.split(".").reduce((object, name) => object?.[name], document_);
    if (typeof value !== "number") return null;
    sum += value;
  }
  return sum;
}

function showNumbers() {
  for (const e of document.querySelectorAll("[data-n]")) show(e, lookUp(numbers, e.dataset.n), forms[e.dataset.f] ?? count);
  const elapsed = (numbersAt - beforeAt) / 1000;
  for (const e of document.querySelectorAll("[data-rate]")) {
    const now = lookUp(numbers, e.dataset.rate), old = before && lookUp(before, e.dataset.rate);
    const known = now != null && old != null && now >= old && elapsed > 0;
    show(e, known ? (now - old) / elapsed : null, forms[e.dataset.f] ?? rate);
  }
  const up = numbers.upstream, resources = numbers.resources, follows = up.answered && up.standing === "ready";
  const memory = Object.values(numbers.summary.memory).reduce((a, b) => a + b, 0);
  show($("lag"), follows ? Math.max(0, up.upstream_revision - up.revision) : null, count);
  show($("memory"), memory, bytes);
  if (!resources) return;
  const sum = name => resources.reduce((all, resource) => all + resource[name], 0);
  show($("keys"), sum("objects"), count);
  show($("keys-bytes"), sum("replica_bytes"), bytes);
  show($("lag"), resources.filter(resource => resource.ready).length, count);
}

/* In front of Kubernetes' API there are objects and resources, and no revision of the whole. */
function showMode() {
  const n = numbers.resources?.length;
  document.body.classList.toggle("kube", n > 0);
  say($("keys-label"), n ? "Objects in the replicas" : "Keys in the replica");
  say($("lag-label"), n ? "Resources ready" : "Behind upstream");
  say($("lag-unit"), n ? ` of ${n}` : " rev");
}

function showTitle() {
  say($("name"), numbers.name || "belfryd");
  say($("version"), "belfryd " + numbers.version);
  say($("up"), age(numbers.up_ms));
}

/* ---- health ---- */

function showHealth() {
  const {summary, upstream, pools} = numbers;
  const failed = summary.checks.filter(check => !check.ok);
  const troubles = Object.values(pools).flatMap(pool => [pool.trouble, pool.admin_trouble]).filter(Boolean);
  const verdict = numbers.draining ? "Draining" : summary.ready ? "Ready" : "Not ready";
  $("health").className = "card health " + (!summary.ready ? "bad" : troubles.length + (summary.warnings ?? []).length > 0 ? "warn" : "ok");
  say($("verdict"), verdict);
  document.title = `${verdict}: ${numbers.name || "belfryd"}`;
  let follows = "";
  if (upstream.answered && upstream.endpoint) {
    follows = `${summary.ready ? "follows" : "last followed"} ${upstream.endpoint}`;
    if (!numbers.resources) follows += `, revision ${count(upstream.revision)}`;
  }
  say($("follows"), follows);
  const items = summary.checks.map(check => make("li", check.ok ? {} : {class: "no"}, check.name));
  items.push(make("li", troubles.length > 0 ? {class: "attention"} : {}, "pools"));
  $("checks").replaceChildren(...items);
  const line = (kind, {name, why, hint}) => make("li", kind, why.startsWith(name + " ") ? why : `${name}: ${why}`, ...(hint ? [make("div", {class: "hint"}, hint)] : []));
  const lines = [...failed.map(check => line({class: "no"}, check)), ...(summary.warnings ?? []).map(warning => line({}, warning))];
  $("troubles").replaceChildren(...lines, ...troubles.map(text => make("li", {}, text)));
}

/* ---- pools, rejections ---- */

const inBytes = ["memory", "requests", "call_bytes", "watch_bytes", "list_bytes"];

function meter(used, limit) {
  const share = limit > 0 ? Math.min(100, 100 * used / limit) : 0;
  const fill = make("div", {class: "fill" + (share > 90 ? " bad" : share > 70 ? " warn" : "")});
  fill.style.width = share + "%";
  const text = limit === 0 ? "–" : share > 0 && share < 1 ? "< 1 %" : Math.floor(share) + " %";
  return make("div", {class: "meter"}, make("div", {class: "track"}, fill), make("span", {class: "amount"}, text));
}

function showPools() {
  const rows = Object.entries(numbers.pools).map(([name, pool]) => {
    const form = inBytes.includes(name) ? bytes : count;
    return make("tr", {"data-pool": name}, make("th", {scope: "row"}, name.replace("_", " ")),
      make("td", {}, meter(pool.used, pool.limit)), make("td", {class: "num", "data-v": pool.used}, form(pool.used)),
      make("td", {class: "num wide"}, pool.limit > 0 ? form(pool.limit) : "none"),
      make("td", {class: "num"}, count(pool.refused)), make("td", {class: "num wide"}, count(pool.ended)),
      make("td", {class: "wide text"}, pool.client || "–"));
  });
  $("pools").tBodies[0].replaceChildren(...rows);
}

/* In front of Kubernetes' API: each resource that is followed. */
function showResources() {
  const all = numbers.resources ?? [], ready = all.filter(resource => resource.ready).length;
  $("resources-card").hidden = all.length === 0;
  say($("resources-note"), `${ready} of ${all.length} are ready.`);
  const number = (n, wide) => make("td", {class: wide ? "num wide" : "num", "data-v": n}, count(n));
  $("resources").tBodies[0].replaceChildren(...all.map(resource =>
    make("tr", {"data-resource": resource.name}, make("th", {scope: "row", class: "text"}, resource.name),
      make("td", {class: resource.ready ? "state-ok" : resource.state === "absent" ? "state-warn" : "state-bad", title: resource.reason},
        resource.state),
      number(resource.resource_version), number(resource.objects), number(resource.events), number(resource.listings, true),
      number(resource.watches, true), number(resource.proofs, true), make("td", {class: "wide text"}, resource.server || "–"))));
}

/* The label of a metric stays; people read what it means. */
const reasons = {kube_front: "Kubernetes requests that cannot be served", kube_relay: "Kubernetes requests over the relays' limit"};

function showRejected() {
  const all = Object.entries(numbers.summary.rejected), some = all.filter(([, n]) => n > 0).sort((a, b) => b[1] - a[1]);
  $("rejected").replaceChildren(...some.map(([reason, n]) =>
    make("li", {"data-reason": reason}, make("span", {}, reasons[reason] ?? reason.replaceAll("_", " ")), make("b", {"data-v": n}, count(n)))));
  say($("rejected-none"), some.length === 0 ? `Nothing was rejected since the start, for any of ${all.length} reasons.`
    : `For ${all.length - some.length} other reasons nothing was rejected since the start.`);
}

/* ---- the tree ---- */

const standings = {ready: "state-ok", stale: "state-bad", "not ready": "state-bad", "?": "state-warn"};

function hop(level) {
  if (level.hop_us == null) return "–";
  return (level.hop === "half_trip" ? "≈ " : "") + ms(level.hop_us / 1000);
}

/* A level above is known as of some time ago: a revision that is older than its neighbour's must not look like a lag, nor
 * the lag of a level that is silent like none. */
function treeState(level) {
  const said = level.standing === "?" ? level.last_standing ?? "unknown" : level.standing || "–";
  return [said + (level.age_ms != null ? ` ${age(level.age_ms)} ago` : ""), standings[level.standing] ?? ""];
}

function treeRow(name, [state, kind], revision, lag, hopText, version, address, self) {
  const known = (n, form) => n == null || n === 0 && numbers?.resources ? "–" : form(n);
  return make("tr", self ? {class: "self"} : {}, make("th", {scope: "row", class: "text"}, name),
    make("td", {class: kind}, state),
    make("td", {class: "num wide"}, known(revision, count)), make("td", {class: "num"}, known(lag, count)),
    make("td", {class: "num"}, hopText), make("td", {class: "wide"}, version || "–"), make("td", {class: "wide text"}, address || "–"));
}

/* Tiers below by name, with the time when they were last here. A tier that loses upstream ends their streams, and for a
 * minute it is still shown whom that met. */
const below = new Map(), GONE_MS = 60000;

function goneRows(tree) {
  const now = performance.now();
  for (const tier of tree.below) below.set(tier.name, {tier, at: now});
  for (const [name, last] of below) if (now - last.at > GONE_MS) below.delete(name);
  if (tree.more > 0) return [];
  return [...below.values()].filter(last => last.at < now)
    .map(({tier, at}) => treeRow("↳ " + tier.name, [`gone, ${age(now - at)} ago`, "state-bad"], null, null, "–", "", tier.peer));
}

function showTree(tree) {
  const lag = level => (level.standing === "ready" || !level.standing) && !(level.age_ms >= 2000) ? level.lag : null;
  const rows = tree.above.map(l => treeRow(l.name || (l.endpoint ? "etcd" : "?"), treeState(l), l.revision, lag(l), hop(l), l.version, l.endpoint));
  const self = tree.self;
  const standing = numbers === null || numbers.summary.ready || self.standing !== "ready" ? self.standing : "not ready";
  rows.push(treeRow((self.name || "belfryd") + " (this one)", treeState({standing}), self.revision, lag({standing, lag: self.lag}), hop(self), self.version, numbers?.advertise, true));
  if (tree.broken)
    rows.push(make("tr", {}, make("td", {colspan: "7", class: "state-bad", id: "tree-broken"}, tree.broken.what
      + (tree.broken.for_ms == null ? "" : `, for ${age(tree.broken.for_ms)}`) + (tree.broken.why ? `: ${tree.broken.why}` : ""))));
  for (const tier of tree.below)
    rows.push(treeRow("↳ " + tier.name, [tier.lag > 0 ? "behind" : "synced", ""], tier.position, tier.lag, "–", "", tier.peer));
  rows.push(...goneRows(tree));
  if (tree.more > 0) rows.push(make("tr", {}, make("td", {colspan: "7", class: "empty"}, `and ${count(tree.more)} streams of other tiers below`)));
  $("tree").tBodies[0].replaceChildren(...rows);
}

/* ---- the last hour ---- */

const HEIGHT = 132, TOP = 8, BOTTOM = 18, LEFT = 46, RIGHT = 6;
const hour = {columns: [], rows: [], next: 0};

const charts = [
  {title: "Events in and out, per second", form: rate, series: [["events", "in"], ["deliveries", "out"]]},
  {title: "Delivery latency", form: ms, series: [["p50_ms", "50 %"], ["p99_ms", "99 %"]]},
  {title: "Reads by source, per second", form: rate, series: [["reads_replica", "replica"], ["reads_upstream", "upstream"]]},
  {title: "Sent to clients, per second", form: bytes, binary: true, series: [["sent_bytes", "sent"]]},
  {title: "Watchers and connections", form: count, least: 2, series: [["watchers", "watchers"], ["connections", "connections"]]},
  {title: "Time since upstream confirmed", form: ms, series: [["lag_ms", "time"]]},
  {title: "Rejected, per second", form: rate, series: [["rejected", "rejected"]]},
  {title: "Memory, accounted", form: bytes, binary: true, series: [["memory_bytes", "memory"]]},
];

/* The next round number from n on, whose half is round, too: 1, 2 or 4 times a power of ten, or a power of two. */
function ceiling(n, chart) {
  if (chart.binary) return 2 ** Math.ceil(Math.log2(Math.max(n, 1024)));
  n = Math.max(n, chart.least ?? 1);
  const power = 10 ** Math.floor(Math.log10(n));
  return [1, 2, 4, 10].find(step => step * power >= n * 0.9999) * power;
}

function makeChart(chart) {
  chart.legend = make("div", {class: "legend"});
  chart.when = make("span", {class: "when"});
  chart.plot = make("div", {class: "plot", role: "slider", tabindex: "0", "aria-label": chart.title + ", the last hour",
    "aria-valuemin": "0", "aria-valuemax": "0", "aria-valuenow": "0"});
  chart.table = make("table", {class: "grid"});
  chart.details = make("details", {}, make("summary", {}, "Table"),
    make("div", {class: "scroll", tabindex: "0", role: "region", "aria-label": chart.title + ", table"}, chart.table));
  chart.at = null;
  chart.plot.addEventListener("pointermove", event => {
    const box = chart.plot.getBoundingClientRect();
    pointTo(chart, rowAt(chart, event.clientX - box.left - 4));
  });
  chart.plot.addEventListener("pointerleave", () => { if (document.activeElement !== chart.plot) pointTo(chart, null); });
  chart.plot.addEventListener("focus", () => pointTo(chart, chart.at ?? hour.rows.length - 1));
  chart.plot.addEventListener("blur", () => pointTo(chart, null));
  chart.plot.addEventListener("keydown", event => {
    const step = {ArrowLeft: -1, ArrowRight: 1, ArrowDown: -1, ArrowUp: 1, PageDown: -12, PageUp: 12, Home: -Infinity, End: Infinity}[event.key];
    if (step === undefined || hour.rows.length === 0) return;
    event.preventDefault();
    pointTo(chart, Math.max(0, Math.min(hour.rows.length - 1, (chart.at ?? hour.rows.length - 1) + step)));
  });
  chart.details.addEventListener("toggle", () => fillTable(chart));
  $("charts").append(make("div", {class: "card chart"}, make("div", {class: "title"}, make("h3", {}, chart.title), chart.when), chart.legend, chart.plot, chart.details));
}

/* From when to when: the hour, or since the start if that is shorter. */
function span() {
  const rows = hour.rows, last = rows.length > 0 ? rows[rows.length - 1][0] : Date.now() / 1000;
  const length = rows.length > 0 ? Math.min(3600, Math.max(300, last - rows[0][0])) : 3600;
  return [last - length, last];
}

function rowAt(chart, x) {
  const [from, to] = span(), width = chart.plot.clientWidth - 8;
  const time = from + (x - LEFT) / (width - LEFT - RIGHT) * (to - from);
  let best = null;
  hour.rows.forEach((row, i) => { if (best === null || Math.abs(row[0] - time) < Math.abs(hour.rows[best][0] - time)) best = i; });
  return best;
}

function valuesAt(chart, i) {
  return chart.series.map(([column]) => hour.rows[i]?.[hour.columns.indexOf(column)] ?? null);
}

function showLegend(chart) {
  const i = chart.at ?? hour.rows.length - 1, values = valuesAt(chart, i);
  const texts = values.map((v, k) => [chart.series[k][1], v == null ? "–" : chart.form(v)]);
  const items = texts.map(([label, text], k) => make("span", {class: "c" + (k + 1)}, label + " ", make("b", {}, text)));
  say(chart.when, chart.at !== null && hour.rows[i] ? clock(hour.rows[i][0]) : "");
  chart.legend.replaceChildren(...items);
  const plot = chart.plot;
  plot.setAttribute("aria-valuemax", Math.max(0, hour.rows.length - 1));
  plot.setAttribute("aria-valuenow", Math.max(0, i));
  plot.setAttribute("aria-valuetext", hour.rows[i] ? `${clock(hour.rows[i][0])}: ${texts.map(t => t.join(" ")).join(", ")}` : "no sample yet");
}

function pointTo(chart, i) {
  if (chart.at === i) return;
  chart.at = i;
  drawChart(chart);
}

/* A path through the samples, broken where one is not known or a sample is missing. */
function path(points) {
  let text = "", last = null;
  for (const [x, y, time] of points) {
    if (y === null) { last = null; continue; }
    text += (last === null || time - last > 30 ? "M" : "L") + x.toFixed(1) + " " + y.toFixed(1);
    last = time;
  }
  return text;
}

function drawChart(chart) {
  const width = chart.plot.clientWidth - 8, [from, to] = span();
  if (width < 60) return;
  showLegend(chart);
  const columns = chart.series.map(([name]) => hour.columns.indexOf(name));
  let most = 0;
  for (const row of hour.rows) for (const c of columns) if (row[c] > most) most = row[c];
  most = ceiling(most, chart);
  const x = time => LEFT + (time - from) / (to - from) * (width - LEFT - RIGHT);
  const y = value => value == null ? null : TOP + (1 - value / most) * (HEIGHT - TOP - BOTTOM);
  const svg = draw("svg", {viewBox: `0 0 ${width} ${HEIGHT}`, "aria-hidden": "true"});
  for (const part of [0, 0.5, 1]) {
    const at = Math.round(y(most * part)) + 0.5;
    svg.append(draw("line", {class: "rule", x1: LEFT, x2: width - RIGHT, y1: at, y2: at}));
    const label = chart.form(most * part).replace(/\.0+(?=\D|$)/, "");
    svg.append(draw("text", {x: LEFT - 6, y: at + 3.5, "text-anchor": "end"}, part === 0 ? "0" : label));
  }
  const step = to - from > 2400 ? 900 : to - from > 1200 ? 600 : to - from > 600 ? 300 : 120, zone = new Date(to * 1000).getTimezoneOffset() * 60;
  for (let time = Math.ceil((from - zone) / step) * step + zone; time <= to; time += step)
    if (x(time) > LEFT + 8 && x(time) < width - 12)
      svg.append(draw("text", {x: x(time), y: HEIGHT - 3, "text-anchor": "middle"}, clock(time, false)));
  columns.forEach((c, k) => {
    const points = hour.rows.map(row => [x(row[0]), y(row[c]), row[0]]);
    svg.append(draw("path", {class: "l" + (k + 1), d: path(points)}));
    const alone = points.filter(([, py], i) => py !== null && (points[i - 1]?.[1] ?? null) === null && (points[i + 1]?.[1] ?? null) === null);
    for (const [px, py] of alone) svg.append(draw("circle", {class: "p" + (k + 1), cx: px, cy: py, r: 1.5}));
  });
  if (chart.at !== null && hour.rows[chart.at]) {
    const row = hour.rows[chart.at], at = Math.round(x(row[0])) + 0.5;
    svg.append(draw("line", {class: "cross", x1: at, x2: at, y1: TOP, y2: HEIGHT - BOTTOM}));
    columns.forEach((c, k) => { if (row[c] != null) svg.append(draw("circle", {class: "p" + (k + 1), cx: x(row[0]), cy: y(row[c]), r: 3.5})); });
  }
  chart.plot.replaceChildren(svg);
}

function fillTable(chart) {
  if (!chart.details.open) return;
  const head = make("tr", {}, make("th", {scope: "col"}, "Time"), ...chart.series.map(([, label]) => make("th", {scope: "col", class: "num"}, label)));
  const rows = hour.rows.map((row, i) => make("tr", {}, make("td", {}, clock(row[0])),
    ...valuesAt(chart, i).map(v => make("td", {class: "num"}, v == null ? "–" : chart.form(v)))));
  chart.table.replaceChildren(make("thead", {}, head), make("tbody", {}, ...rows.reverse()));
}

function showHour() {
  for (const chart of charts) {
    drawChart(chart);
    fillTable(chart);
  }
  const last = hour.rows[hour.rows.length - 1], value = name => last?.[hour.columns.indexOf(name)] ?? null;
  show($("p99"), value("p99_ms"), n => "< " + ms(n));
  show($("p50"), value("p50_ms"), n => "< " + ms(n));
}

async function loadHour() {
  const got = await ask("/debug/hour");
  if (!got) return;
  Object.assign(hour, {columns: got.columns, rows: got.rows, next: got.first + got.rows.length});
  say($("hour-bytes"), bytes(got.bytes));
  showHour();
}

function addSample({number, row}) {
  if (number > hour.next || hour.columns.length === 0) { loadHour(); return; } /* some were missed */
  if (number < hour.next) return;
  hour.rows.push(row);
  hour.next = number + 1;
  if (hour.rows.length > 720) {
    hour.rows.shift();
    for (const chart of charts) if (chart.at !== null) chart.at = Math.max(0, chart.at - 1);
  }
  showHour();
}

/* ---- clients and watchers ---- */

const MANY = 20000; /* watchers or connections: from here on the table is read only when it is asked for */
const tables = {
  clients: {sort: "cpu", path: "/debug/clients", columns: [
    ["Client", r => r.class === "tier" ? r.client + " (tier)" : r.client, "text"],
    ["CPU share", r => Math.min(100, r.cpu_percent).toFixed(1) + " %", "num", "cpu"],
    ["Memory", r => bytes(r.memory_bytes), "num", "memory"],
    ["Connections", r => count(r.connections), "num wide", "connections"],
    ["Watchers", r => count(r.watchers), "num"],
    ["Calls", r => rate(r.calls_per_s) + "/s", "num wide", "calls"],
    ["Requests", r => rate(r.requests_per_s) + "/s", "num wide"],
    ["In", r => bytes(r.bytes_in_per_s) + "/s", "num wide"],
    ["Out", r => bytes(r.bytes_out_per_s) + "/s", "num wide"]]},
  watchers: {sort: "lag", path: "/debug/watchers", columns: [
    ["Lag", r => count(r.lag), "num", "lag"],
    ["State", r => r.state, ""],
    ["Watches", watched, "key"],
    ["Client", r => r.identity && r.identity !== "none" ? `${r.peer} ${r.identity}` : r.peer, "text"],
    ["Program", r => r.client || "–", "wide text"],
    ["Dialect", r => r.dialect, "wide"],
    ["Sent", r => bytes(r.sent_bytes), "num wide", "sent"],
    ["Age", r => age(r.age_ms), "num wide", "age"]]},
};
let table = "clients", asked = 0, tableAt = 0;

function watched(r) {
  if (r.range) return r.selector ? `${r.range} ${r.selector}` : r.range;
  const key = r.key ?? `base64 ${r.key_b64 ?? ""}`, end = r.range_end ?? r.range_end_b64;
  return r.prefix ? key + "*" : end ? `${key} … ${end}` : key;
}

function showTableHead() {
  const {columns, sort} = tables[table];
  const cells = columns.map(([label, , kind, word]) => {
    const cell = make("th", {scope: "col", class: kind === "key" ? "" : kind});
    if (!word) { cell.append(label); return cell; }
    const button = make("button", {type: "button"}, label);
    button.addEventListener("click", () => { tables[table].sort = word; loadTable(); });
    cell.setAttribute("aria-sort", word === sort ? "descending" : "none");
    cell.append(button);
    return cell;
  });
  const focused = [...$("who").tHead.querySelectorAll("button")].indexOf(document.activeElement);
  $("who").tHead.replaceChildren(make("tr", {}, ...cells));
  if (focused >= 0) $("who").tHead.querySelectorAll("button")[focused]?.focus();
}

async function loadTable() {
  const {path: url, sort, columns} = tables[table], filter = $("filter").value, mine = ++asked;
  const query = new URLSearchParams({sort, limit: 50});
  if (filter) query.set("filter", filter);
  const got = await ask(`${url}?${query}`);
  if (mine !== asked || !got) return;
  tableAt = Date.now();
  const rows = got.rows.map(row => make("tr", {}, ...columns.map(([, text, kind]) => make("td", {class: kind}, text(row)))));
  if (rows.length === 0) rows.push(make("tr", {}, make("td", {colspan: columns.length, class: "empty"}, filter ? "None matches the filter." : "None.")));
  showTableHead();
  $("who").tBodies[0].replaceChildren(...rows);
  showTableNote(table === "clients" ? got.clients + got.left_out : got.matched);
}

function isMany() {
  return numbers !== null && (numbers.summary.core.watchers > MANY || numbers.summary.inbound.connections > MANY);
}

function showTableNote(n) {
  const what = table === "clients" ? "CPU is the share of what all clients cost in the last 10 s." : "Lag is in revisions. A parked watcher does not read what it is sent.";
  const when = isMany() ? ` Read at ${clock(tableAt / 1000)}; with more than ${count(MANY)} watchers it is read again only by Refresh.` : "";
  say($("who-note"), `${count(n)} ${n === 1 ? table.slice(0, -1) : table}, at most 50 are shown. ${what}${when}`);
}

function choose(name) {
  table = name;
  for (const each of Object.keys(tables)) $("tab-" + each).setAttribute("aria-pressed", String(each === name));
  loadTable();
}

/* ---- the log ---- */

/* The pairs of a line, as belfryd writes them: the reason first, then what to do, then the rest. */
function logText(text) {
  const pairs = [...text.matchAll(/([^\s=]+)=(?:"((?:\\.|[^"\\])*)"|(\S*))/g)].map(([, name, quoted, plain]) =>
    [name, quoted === undefined ? plain : quoted.replace(/\\(["\\])/g, "$1")]);
  if (pairs.length === 0) return [text];
  const of = name => pairs.find(([other]) => other === name)?.[1];
  const rest = pairs.filter(([name]) => !["why", "hint", "remedy"].includes(name)).map(([name, value]) => `${name.replaceAll("_", " ")} ${value}`).join(", ");
  const parts = [of("why"), of("hint") ?? of("remedy"), rest].filter(Boolean);
  return parts.map((part, i) => make("div", i === 0 ? {} : {class: "hint"}, part));
}

async function loadLog() {
  const got = await ask("/debug/log");
  if (!got?.lines) return;
  $("log").tBodies[0].replaceChildren(...got.lines.map(line => make("tr", {},
    make("td", {class: "time"}, make("time", {datetime: new Date(line.time_ms).toISOString()}, new Date(line.time_ms).toLocaleString("en-GB"))),
    make("td", {class: line.level === "error" ? "state-bad" : "state-warn"}, line.level),
    make("td", {}, line.event.replaceAll("_", " ")), make("td", {class: "text"}, ...logText(line.text)))));
  $("log-none").hidden = got.lines.length > 0;
}

/* ---- the tail ---- */

const TAIL_ROWS = 200;
let tail = null;

function endTail(text) {
  tail?.close();
  tail = null;
  say($("tail-button"), "Start");
  say($("tail-note"), text);
}

function addTail(...cells) {
  const rows = $("tail-lines").tBodies[0];
  rows.prepend(make("tr", {}, ...cells));
  while (rows.rows.length > TAIL_ROWS) rows.deleteRow(-1);
}

function onChange({data}) {
  const change = JSON.parse(data), shown = change.value ?? (change.value_b64 == null ? "" : "base64 " + change.value_b64);
  const size = change.bytes > 512 ? ` … (${bytes(change.bytes)})` : "";
  addTail(make("td", {class: "num"}, count(change.revision)), make("td", {class: change.type === "put" ? "" : "state-warn"}, change.type),
    make("td", {class: "key"}, change.key ?? "base64 " + change.key_b64), make("td", {class: "key"}, shown + size));
}

function toggleTail() {
  if (tail) { endTail("Stopped."); return; }
  const prefix = $("tail-prefix").value;
  $("tail-lines").tBodies[0].replaceChildren();
  tail = new EventSource("/debug/tail?" + new URLSearchParams({prefix}));
  say($("tail-button"), "Stop");
  say($("tail-note"), `Changes of ${prefix ? `keys that begin with ${prefix}` : "all keys"} from now on, newest first, at most ${TAIL_ROWS}.`);
  tail.addEventListener("change", onChange);
  tail.addEventListener("skipped", event => addTail(make("td", {colspan: "4", class: "empty"}, `${count(JSON.parse(event.data).changes)} more changes were left out`)));
  tail.addEventListener("lost", () => addTail(make("td", {colspan: "4", class: "empty"}, "some changes were not read")));
  tail.addEventListener("error", () => { if (tail?.readyState === EventSource.CLOSED) endTail("It was refused: too many are open."); });
}

/* ---- the connection ---- */

async function ask(path) {
  try {
    const answer = await fetch(path, {headers: {accept: "application/json"}});
    return answer.ok ? await answer.json() : null;
  } catch {
    return null; /* the stream says that the connection is lost */
  }
}

let stream = null;

function showLink(state, text) {
  $("link").className = "link " + state;
  say($("link"), text);
  document.body.classList.toggle("lost-link", state === "lost");
}

function onNumbers(event) {
  [before, beforeAt] = [numbers, numbersAt];
  [numbers, numbersAt] = [JSON.parse(event.data), Date.now()];
  if (before && numbers.up_ms < before.up_ms) { before = null; hour.columns = []; loadLog(); } /* it was restarted */
  showLink(numbers.summary.ready ? "live" : "live open", numbers.summary.ready ? "live" : "page connected");
  showMode();
  showTitle();
  showHealth();
  showNumbers();
  showPools();
  showResources();
  showRejected();
  if (!isMany() && Date.now() - tableAt >= 5000) loadTable();
}

function connect() {
  stream = new EventSource("/events");
  stream.addEventListener("numbers", onNumbers);
  stream.addEventListener("tree", event => showTree(JSON.parse(event.data)));
  stream.addEventListener("hour", event => addSample(JSON.parse(event.data)));
  stream.addEventListener("log", loadLog);
  stream.addEventListener("error", () => {
    showLink("lost", "connection lost");
    if (stream?.readyState === EventSource.CLOSED) { stream = null; setTimeout(begin, 3000); } /* refused: 503 */
  });
}

/* A page that is not looked at asks for nothing. A browser opens only six connections to one address. */
function begin() {
  if (document.hidden || stream !== null) return;
  connect();
  loadHour();
  loadLog();
}

document.addEventListener("visibilitychange", () => {
  if (!document.hidden) { begin(); return; }
  stream?.close();
  stream = null;
  before = null;
  if (tail) endTail("Stopped while the page was not looked at.");
});

async function loadEndpoints() {
  const answer = await fetch("/", {headers: {accept: "text/plain"}});
  const lines = (await answer.text()).split("\n").slice(1).map(line => line.match(/^(\/\S*)\s+(.*)$/)).filter(Boolean);
  $("tail").hidden = !lines.some(([, where]) => where === "/debug/tail");
  $("endpoints").replaceChildren(...lines.map(([, where, what]) => make("li", {}, make("a", {href: where}, where), what)));
}

let typing = 0;
$("filter").addEventListener("input", () => { clearTimeout(typing); typing = setTimeout(loadTable, 250); });
$("refresh").addEventListener("click", loadTable);
$("tail-button").addEventListener("click", toggleTail);
$("tail-prefix").addEventListener("keydown", event => { if (event.key === "Enter") toggleTail(); });
for (const name of Object.keys(tables)) $("tab-" + name).addEventListener("click", () => choose(name));
charts.forEach(makeChart);
new ResizeObserver(() => charts.forEach(drawChart)).observe($("charts"));
loadEndpoints().catch(() => {});
begin();
