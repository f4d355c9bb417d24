// belfry.js with scripted streams: cut at every byte, resumed, refused, stalled. A page in a browser, on a real tier, is in
// tests/integration/test_sse_browser.py.
//
//     node --test tests/node/belfry_js.mjs
import assert from "node:assert";
import {readFileSync} from "node:fs";
import test from "node:test";

// Node takes a .js file for a module only beside a package.json that says so.
const source = readFileSync(new URL("../../src/serve/sse/belfry.js", import.meta.url));
const {default: Belfry, Parser} = await import("data:text/javascript;base64," + source.toString("base64"));

test("the file is small", () => assert.ok(source.length <= 8192, `${source.length} bytes`));

// ---- the parser ----

function parse(bytes, sizes) {
    const seen = [], decoder = new TextDecoder(), parser = new Parser((...message) => seen.push(message));
    let at = 0;
    for (const size of sizes) {
        parser.push(decoder.decode(bytes.subarray(at, at + size), {stream: true}));
        at += size;
    }
    parser.push(decoder.decode(bytes.subarray(at), {stream: true}));
    return seen;
}

const STREAM = "\ufeff: heartbeat\nretry: 2137\nretry: soon\n\nevent: reset\nid: 0\ndata: {}\n\n" +
    "data: Gr\u00fc\u00dfe \u{1f514}\ndata:second\ndata\ndata:  blank\n\nid: 7-ab\nevent: progress\ndata: x\nother: y\n\n" +
    "id: lost\n\nevent: lost\n\ndata: a:b\nid: nul\0\n\ndata: unfinished\nid: 9\n";
const MESSAGES = [["retry", "2137"], ["reset", "{}", "0"], ["message", "Gr\u00fc\u00dfe \u{1f514}\nsecond\n\n blank", undefined],
    ["progress", "x", "7-ab"], ["message", "a:b", undefined]];

for (const [name, end] of [["LF", "\n"], ["CR", "\r"], ["CRLF", "\r\n"]])
    test(`a stream with ${name} is the same wherever it is cut`, () => {
        const bytes = new TextEncoder().encode(STREAM.replaceAll("\n", end));
        assert.deepStrictEqual(parse(bytes, []), MESSAGES);
        assert.deepStrictEqual(parse(bytes, Array(bytes.length).fill(1)), MESSAGES);
        for (let first = 0; first <= bytes.length; first++)
            for (const second of [0, 1, 2, 3, 17])
                assert.deepStrictEqual(parse(bytes, [first, second]), MESSAGES, `cut at ${first} and ${second} after it`);
    });

test("a CR before an LF that is a line of its own", () => {
    const bytes = new TextEncoder().encode("data: a\r\n\r\ndata: b\n\ndata: c\r\rdata: d\r\n\n");
    for (let first = 0; first <= bytes.length; first++)
        assert.deepStrictEqual(parse(bytes, [first]).map(message => message[1]), ["a", "b", "c", "d"]);
});

// ---- a world: revisions, and the streams that a tier would send ----

const message = (fields, data) => Object.entries(fields).map(([name, value]) => `${name}: ${value}\n`).join("") +
    `data: ${JSON.stringify(data)}\n\n`;
const put = (key, value) => ({op: "put", key, value});
const del = key => ({op: "delete", key});

class World {
    constructor(first, revisions) {
        this.states = new Map([[first, new Map()]]); // revision -> state
        this.revisions = revisions; // [events]
        this.first = first;
        revisions.forEach((events, i) => {
            const state = new Map(this.states.get(first + i));
            for (const {op, key, value} of events) op === "put" ? state.set(key, value) : state.delete(key);
            this.states.set(first + i + 1, state);
        });
    }

    get last() { return this.first + this.revisions.length; }
    state(rev) { return this.states.get(rev); }

    // The state at `rev` in parts of two keys.
    snapshot(rev, reason = "snapshot") {
        const events = [...this.state(rev)].map(([key, value]) => put(key, value));
        let text = "retry: 100\n\n" + message({event: "reset", id: 0}, {reason});
        for (let i = 0; i < events.length; i += 2) text += message({event: "state"}, {events: events.slice(i, i + 2)});
        return text + message({event: "synced", id: `${rev}-9a3f01bc`}, {rev, n: events.length});
    }

    // What follows `rev`; a revision of more than one event comes in parts.
    after(rev) {
        let text = ": on\n\n";
        for (let at = rev + 1; at <= this.last; at++) {
            const events = this.revisions[at - this.first - 1];
            for (let i = 0; i < events.length; i++) {
                const more = i < events.length - 1;
                text += message(more ? {} : {id: `${at}-9a3f01bc`}, {rev: at, ...(more ? {more} : {}), events: [events[i]]});
            }
        }
        return text + message({event: "progress", id: `${this.last}-9a3f01bc`}, {rev: this.last});
    }

    // What a tier answers to this position. `start`: the revision of a snapshot.
    answer(id, start) {
        return id === "0" ? this.snapshot(start) + this.after(start) : this.after(Number(id.split("-")[0]));
    }
}

const WORLD = new World(10, [
    [put("/a/1", "one"), put("/a/2", "zw\u00f6lf \u{1f514}")], [put("/b/1", "x")], [del("/a/1"), put("/a/3", "3"), put("/b/2", "y")],
    [put("/b/1", "z")], [del("/b/2"), del("/a/3")], [put("/c", "end"), put("/a/1", "again")]]);

// ---- a page: fetch and the clock are ours ----

// Answers each fetch by answer(request, number): a text, or {status, text}, or null (no connection), or a promise of one.
// The stream of a text ends with the text, in pieces of `size` bytes.
function page(answer, size = 7) {
    const saved = {fetch: globalThis.fetch, setTimeout: globalThis.setTimeout};
    const seen = {requests: [], pauses: [], restore: () => Object.assign(globalThis, saved)};
    globalThis.setTimeout = (fn, ms) => { seen.pauses.push(ms); return saved.setTimeout(fn, 0); };
    globalThis.fetch = async (url, {headers, signal}) => {
        const request = {url: new URL(url), headers, signal};
        seen.requests.push(request);
        const got = await answer(request, seen.requests.length - 1);
        if (got === null) throw new TypeError("fetch failed");
        const {status = 200, text = got} = got;
        if (typeof text !== "string") return {status, body: text};
        const bytes = typeof text === "string" ? new TextEncoder().encode(text) : text;
        return {status, text: async () => text, body: streamOf(bytes, size, got.cut ?? bytes.length, got.hold ? signal : null)};
    };
    return seen;
}

// `hold`: after the bytes the stream waits until this signal aborts it.
function streamOf(bytes, size, cut, hold) {
    let at = 0;
    return {getReader: () => ({read: async () => {
        if (at < cut) {
            const value = bytes.subarray(at, Math.min(at + size, cut));
            at += size;
            return {done: false, value};
        }
        if (hold === null) return {done: true};
        if (hold.aborted) throw new Error("aborted");
        return new Promise((_, reject) => hold.addEventListener("abort", () => reject(new Error("aborted"))));
    }})};
}

const until = async (condition, what) => {
    for (const end = Date.now() + 5000; Date.now() < end;) {
        if (condition()) return;
        await new Promise(resolve => setImmediate(resolve));
    }
    assert.fail("never: " + what);
};

const idOf = request => request.url.searchParams.get("last-event-id");
const plain = keys => new Map([...keys].sort());
const sorted = state => new Map([...state].sort());

// Follows the world from a snapshot at `start`; the first connection is cut after `cut` bytes. Each revision after the
// snapshot must come once, and what is visible must be a state of the world at all times.
async function follow(start, cut, size) {
    const seen = page((request, number) => {
        const text = WORLD.answer(idOf(request), start);
        return number === 0 ? {text, cut} : {text, hold: true};
    }, size);
    const keys = new Belfry({endpoints: ["http://tier"], prefixes: ["/"]}), revs = [];
    keys.addEventListener("change", ({detail: {rev, changes, reason}}) => {
        assert.deepStrictEqual(plain(keys), sorted(WORLD.state(rev)), `at ${rev}, cut at ${cut}`);
        assert.ok(changes.length > 0);
        if (reason === undefined) revs.push(rev);
    });
    const see = () => {
        const states = [new Map(), ...WORLD.states.values()].map(state => JSON.stringify([...sorted(state)]));
        assert.ok(states.includes(JSON.stringify([...plain(keys)])), `half a revision is visible, cut at ${cut}`);
        return keys.rev === WORLD.last && seen.requests.length === 2 && keys.state === "live";
    };
    try {
        await until(see, `revision ${WORLD.last}, cut at ${cut}`);
    } finally {
        keys.close();
        seen.restore();
    }
    const whole = [];
    for (let rev = start + 1; rev <= WORLD.last; rev++) whole.push(rev);
    assert.deepStrictEqual(revs, whole, `cut at ${cut}`);
    assert.deepStrictEqual(plain(keys), sorted(WORLD.state(WORLD.last)));
}

for (const start of [10, 13])
    test(`a stream from ${start}, cut at every byte, is followed without a gap or a double`, async () => {
        const length = new TextEncoder().encode(WORLD.answer("0", start)).length;
        for (let cut = 0; cut <= length; cut++) await follow(start, cut, 11);
        for (let cut = 0; cut <= length; cut += 97) await follow(start, cut, 1);
    });

// ---- resets ----

async function collect(answer, opts, done) {
    const seen = page(answer), told = [];
    const keys = new Belfry({endpoints: ["http://tier"], prefixes: ["/"], ...opts});
    for (const type of ["change", "synced", "state", "error"])
        keys.addEventListener(type, e => told.push([type, e.detail]));
    try {
        await until(() => done(keys, told, seen), "the end");
    } finally { // a page that is left open keeps this process
        keys.close();
        seen.restore();
    }
    return {keys, told, seen};
}

test("after a reset only what differs is a change, and keys that are gone are deleted", async () => {
    const text = WORLD.snapshot(13) + WORLD.snapshot(16, "compacted");
    const {keys, told} = await collect(() => ({text, hold: true}), {}, keys => keys.rev === 16);
    assert.deepStrictEqual(plain(keys), sorted(WORLD.state(16)));
    const [, {rev, changes, reason}] = told.findLast(([type]) => type === "change");
    assert.deepStrictEqual([rev, reason], [16, "compacted"]);
    assert.deepStrictEqual(changes, [{op: "put", key: "/b/1", value: "z", old: "x"}, {op: "put", key: "/c", value: "end", old: undefined},
        {op: "put", key: "/a/1", value: "again", old: undefined}, {op: "delete", key: "/a/3", old: "3"},
        {op: "delete", key: "/b/2", old: "y"}]);
});

test("a revision whose end never comes is dropped by a reset", async () => {
    const half = message({}, {rev: 14, more: true, events: [put("/ghost", "boo")]});
    const text = WORLD.snapshot(13) + half + WORLD.snapshot(13, "compacted") + WORLD.after(13);
    const {keys, told} = await collect(() => ({text, hold: true}), {}, keys => keys.rev === 16);
    assert.ok(!keys.has("/ghost"));
    assert.ok(!JSON.stringify(told).includes("ghost"));
});

test("a state that is cut is not seen, and the old one stays until the new one is whole", async () => {
    const cutOff = message({event: "reset", id: 0}, {reason: "rewritten"}) + message({event: "state"}, {events: [put("/ghost", "boo")]});
    const {keys, seen} = await collect((request, number) =>
        number === 0 ? WORLD.snapshot(13) + cutOff : {text: WORLD.snapshot(12), hold: true}, {}, (keys, told, seen) => {
        if (keys.size > 0 && keys.rev === 13) assert.deepStrictEqual(plain(keys), sorted(WORLD.state(13)));
        return seen.requests.length === 2 && keys.state === "live" && keys.rev === 12;
    });
    assert.strictEqual(idOf(seen.requests[1]), "0");
    assert.deepStrictEqual(plain(keys), sorted(WORLD.state(12)));
});

test("an equal state after a reset is no change", async () => {
    const text = WORLD.snapshot(13) + WORLD.snapshot(13, "ahead");
    const {told} = await collect(() => ({text, hold: true}), {}, (keys, told) => told.filter(([type]) => type === "synced").length === 2);
    assert.strictEqual(told.filter(([type]) => type === "change").length, 1);
    assert.deepStrictEqual(told.filter(([type]) => type === "state").map(([, {state}]) => state),
                           ["syncing", "live", "syncing", "live", "closed"]);
});

// ---- values and keys ----

test("bytes are a Uint8Array, and a key of bytes has a name that no other can have", async () => {
    const events = [{op: "put", key: "/t", value: "text"}, {op: "put", key: "/b", value_b64: "/wD+"},
        {op: "put", key_b64: "L/8=", value: "k"}];
    const text = message({event: "reset", id: 0}, {reason: "snapshot"}) + message({event: "state"}, {events}) +
        message({event: "synced", id: "5-x"}, {rev: 5, n: 3}) +
        message({id: "6-x"}, {rev: 6, events: [{op: "delete", key_b64: "L/8="}]});
    let middle;
    const {keys} = await collect(() => ({text, hold: true}), {}, keys => {
        if (keys.rev === 5) middle = new Map(keys);
        return keys.rev === 6;
    });
    assert.deepStrictEqual(keys.get("/b"), Uint8Array.of(0xff, 0, 0xfe));
    assert.strictEqual(keys.get("/t"), "text");
    assert.ok(!keys.has("\udc00L/8="));
    if (middle) assert.strictEqual(middle.get("\udc00L/8="), "k");
});

test("JSON is compared by what it says", async () => {
    const state = (rev, value) => message({event: "reset", id: 0}, {reason: "snapshot"}) +
        message({event: "state"}, {events: [{op: "put", key: "/j", value}]}) + message({event: "synced", id: `${rev}-x`}, {rev, n: 1});
    const text = state(1, {a: [1, null]}) + state(2, {a: [1, null]}) + state(3, {a: [1, 2]}) + state(4, null);
    const {told, seen} = await collect(() => ({text, hold: true}), {value: "json"}, keys => keys.rev === 4);
    assert.deepStrictEqual(told.filter(([type]) => type === "change").map(([, {rev}]) => rev), [1, 3, 4]);
    assert.strictEqual(seen.requests[0].url.searchParams.get("value"), "json");
});

test("the ranges are in the query, percent-encoded", async () => {
    const {seen} = await collect(() => ({text: WORLD.snapshot(10), hold: true}), {prefixes: ["/a b&/", "/\u00fc+"], keys: ["k=1"]},
                                 keys => keys.state === "live");
    assert.strictEqual(seen.requests[0].url.search,
                       "?prefix=%2Fa%20b%26%2F&prefix=%2F%C3%BC%2B&key=k%3D1&snapshot=1&value=auto&last-event-id=0");
});

test("nobody but etcd writes the Map", async () => {
    const {keys} = await collect(() => ({text: WORLD.snapshot(12), hold: true}), {}, keys => keys.state === "live");
    for (const write of [() => keys.set("/x", "y"), () => keys.delete("/b/1"), () => keys.clear()]) assert.throws(write, TypeError);
    assert.deepStrictEqual(plain(keys), sorted(WORLD.state(12)));
    assert.ok(keys instanceof Map);
});

// ---- refusals, failures, pauses ----

for (const status of [400, 401, 403])
    test(`${status} is final`, async () => {
        const {keys, told, seen} = await collect(() => ({status, text: "no"}), {token: "t"}, (keys, told) => told.some(([type]) => type === "error"));
        assert.deepStrictEqual(told, [["state", {state: "closed"}], ["error", {status, message: "no"}]]);
        assert.strictEqual(seen.requests.length, 1);
        assert.strictEqual(seen.requests[0].headers.Authorization, "Bearer t");
        assert.strictEqual(keys.state, "closed");
    });

test("a denied stream is final", async () => {
    const {keys, told} = await collect(() => WORLD.snapshot(12) + message({event: "denied"}, {error: "revoked"}), {token: "t"},
                                       (keys, told) => told.some(([type]) => type === "error"));
    assert.deepStrictEqual(told.at(-1), ["error", {status: 401, message: "revoked"}]);
    assert.deepStrictEqual(plain(keys), sorted(WORLD.state(12)));
});

test("a function gives a new token after a refusal, once", async () => {
    let n = 0;
    const token = async () => `t${++n}`;
    const {seen} = await collect(({headers}) => headers.Authorization === "Bearer t2" ? {text: WORLD.snapshot(12), hold: true}
        : {status: 401, text: "expired"}, {token}, keys => keys.state === "live");
    assert.strictEqual(seen.requests.length, 2);
    const refused = await collect(() => ({status: 401, text: "no"}), {token}, (keys, told) => told.some(([type]) => type === "error"));
    assert.strictEqual(refused.seen.requests.length, 2);
    const denied = message({event: "denied"}, {error: "revoked"});
    const ended = await collect(() => denied, {token}, (keys, told) => told.some(([type]) => type === "error"));
    assert.strictEqual(ended.seen.requests.length, 2);
});

test("a token that expires again and again is renewed again and again", async () => {
    let n = 0;
    const {seen} = await collect((request, number) => number % 2 === 0 ? WORLD.answer(idOf(request), 12) : {status: 401, text: "expired"},
                                 {token: () => `t${++n}`}, (keys, told, seen) => seen.requests.length === 9);
    assert.strictEqual(new Set(seen.requests.map(({headers}) => headers.Authorization)).size, 9);
});

test("other failures are retried on the next endpoint, after a pause that grows", async () => {
    const answers = [null, {status: 503, text: ""}, "retry: 200\n\n", null, null, null, null, null, null, null, null];
    const {seen} = await collect((request, number) => number < answers.length ? answers[number] : {text: WORLD.snapshot(12), hold: true},
                                 {endpoints: ["http://a", "http://b:1", "http://c"]}, keys => keys.state === "live");
    const hosts = seen.requests.map(({url}) => url.host), order = ["a", "b:1", "c"], first = order.indexOf(hosts[0]);
    assert.deepStrictEqual(hosts, hosts.map((_, i) => order[(first + i) % 3]));
    const bases = [2000, 4000, 1600, 3200, 6400, 12800, 25600, 30000, 30000, 30000, 30000];
    seen.pauses.forEach((ms, i) => assert.ok(ms >= bases[i] && ms <= bases[i] * 1.5, `pause ${i}: ${ms} ms`));
    assert.strictEqual(seen.pauses.length, bases.length);
});

test("a server that asks for a long pause gets it", async () => {
    const {seen} = await collect((request, number) => number === 0 ? "retry: 90000\n\n" : {text: WORLD.snapshot(12), hold: true}, {},
                                 keys => keys.state === "live");
    assert.ok(seen.pauses[0] >= 90000);
});

test("pauses have jitter", async () => {
    const {seen} = await collect(() => WORLD.snapshot(12), {}, (keys, told, seen) => seen.requests.length === 30);
    assert.ok(new Set(seen.pauses).size > 20);
    for (const ms of seen.pauses) assert.ok(ms >= 100 && ms <= 150, `${ms} ms: a stream with messages was no failure`);
});

test("nonsense is a failure like any other", async () => {
    const {keys} = await collect((request, number) => number === 0 ? "data: {nonsense\n\n" : {text: WORLD.snapshot(12), hold: true}, {},
                                 keys => keys.state === "live");
    assert.strictEqual(keys.size, 3);
});

test("a connection without a byte is given up, before and after its first one", async () => {
    const hang = signal => new Promise((_, reject) => signal.addEventListener("abort", () => reject(new Error("aborted"))));
    const {seen} = await collect(({signal}, number) => number === 0 ? hang(signal) : number < 3 ? {text: WORLD.snapshot(12), hold: true}
        : {text: WORLD.snapshot(13), hold: true}, {stall: 40}, keys => keys.rev === 13);
    assert.strictEqual(seen.requests.length, 4);
    assert.ok(seen.requests.slice(0, 3).every(({signal}) => signal.aborted));
});

test("close() ends the connection, the pause and the events", async () => {
    const {seen, told, keys} = await collect(() => ({text: WORLD.snapshot(12), hold: true}), {}, keys => keys.state === "live");
    await new Promise(resolve => setImmediate(resolve));
    assert.ok(seen.requests[0].signal.aborted);
    assert.deepStrictEqual(told.at(-1), ["state", {state: "closed"}]);
    assert.strictEqual(keys.size, 3);
    const paused = page(() => null);
    globalThis.setTimeout = () => 0; // never
    const waiting = new Belfry({endpoints: ["http://tier"], prefixes: ["/"]});
    await until(() => paused.requests.length === 1, "a request");
    await new Promise(resolve => setImmediate(resolve));
    waiting.close();
    await new Promise(resolve => setImmediate(resolve));
    assert.strictEqual(paused.requests.length, 1);
    assert.strictEqual(waiting.state, "closed");
    paused.restore();
});

test("close() inside a change ends the changes", async () => {
    const seen = page(() => ({text: WORLD.answer("0", 10), hold: true}), 100000), revs = [];
    const keys = new Belfry({endpoints: ["http://tier"], prefixes: ["/"]});
    keys.addEventListener("change", e => { revs.push(e.detail.rev); if (e.detail.rev === 12) keys.close(); });
    await until(() => keys.state === "closed", "closed");
    await new Promise(resolve => setImmediate(resolve));
    assert.deepStrictEqual(revs, [11, 12]);
    seen.restore();
});
