/* belfry.js: a Map of the keys under some prefixes of etcd, which follows every change (docs/sse.md).
 *
 *   import Belfry from "/belfry.js";
 *   const keys = new Belfry({prefixes: ["/services/", "/flags/"], token});
 *   keys.addEventListener("change", e => render(keys, e.detail.changes));
 *
 * The Map changes by whole revisions only: no half of a transaction or of a state is ever visible. After a cut it goes
 * on where it was, on any of its endpoints.
 */

/* Takes an event stream in pieces of any size. Calls onMessage(type, data, id), and ("retry", ms). */
export class Parser {
  #rest = ""; // an unfinished line
  #afterCr = false; // a \n would be the second half of a line end
  #message = {data: []};
  #onMessage;

  constructor(onMessage) { this.#onMessage = onMessage; }

  push(text) {
    if (text === "") return;
    if (this.#afterCr && text[0] === "\n") text = text.slice(1);
    this.#afterCr = text.endsWith("\r");
    if (!/[\r\n]/.test(text)) { // a long line is searched once
      this.#rest += text;
      return;
    }
    const lines = (this.#rest + text).split(/\r\n|\n|\r/);
    this.#rest = lines.pop();
    for (const line of lines) this.#line(line);
  }

  #line(line) {
    if (line === "") return this.#end();
    const [, name, value] = /^([^:]*):? ?([^]*)$/.exec(line);
    if (name === "data") this.#message.data.push(value);
    else if (name === "event" || (name === "id" && !value.includes("\0"))) this.#message[name] = value;
    else if (name === "retry" && /^\d+$/.test(value)) this.#onMessage(name, value);
  }

  #end() {
    const {event, data, id} = this.#message;
    this.#message = {data: []};
    if (data.length > 0) this.#onMessage(event || "message", data.join("\n"), id);
  }
}

const refusal = (status, message) => Object.assign(new Error(message), {status});
/* A key that is no UTF-8 is "\udc00" and its base64: no other key can begin so. */
const keyOf = ({key, key_b64}) => key ?? "\udc00" + key_b64;
const valueOf = ({value, value_b64: b64}) =>
  b64 === undefined ? value : Uint8Array.from(atob(b64), c => c.charCodeAt(0));
const same = (a, b) => a === b || (typeof a === "object" && JSON.stringify(a) === JSON.stringify(b));

export default class Belfry extends Map {
  #bus = new EventTarget();
  #opts;
  #query;
  #turn; // which endpoint is next
  #state = "connecting";
  #id = "0"; // the position: "0" is nowhere
  #rev = 0;
  #next; // a state that is not whole yet
  #reason; // why it came
  #parts = []; // events of a revision that is not whole yet
  #retry = 1000; // ms
  #failures = 0; // connections in a row without a message
  #renewed; // the last token was refused
  #abort; // ends the connection, or the pause after it

  constructor(opts) {
    super();
    const {prefixes = [], keys = []} = opts, encode = encodeURIComponent;
    this.#opts = {endpoints: [new URL(import.meta.url).origin], value: "auto", stall: 60000, ...opts};
    this.#turn = Math.floor(Math.random() * this.#opts.endpoints.length);
    this.#query = [...prefixes.map(prefix => "prefix=" + encode(prefix)), ...keys.map(key => "key=" + encode(key)),
      "snapshot=1"].join("&");
    this.#run();
  }

  get state() { return this.#state; }
  get rev() { return this.#rev; }

  addEventListener(...args) { this.#bus.addEventListener(...args); }
  removeEventListener(...args) { this.#bus.removeEventListener(...args); }

  set() { throw new TypeError("read-only: write to etcd"); }
  delete() { this.set(); }
  clear() { this.set(); }

  /* Ends it. The Map keeps its last state. */
  close() {
    this.#moveTo("closed");
    this.#abort.abort();
  }

  async #run() {
    const {endpoints} = this.#opts;
    while (this.#state !== "closed") {
      this.#abort = new AbortController();
      try {
        await this.#read(endpoints[this.#turn++ % endpoints.length], this.#abort);
      } catch (why) { // only a refusal is final
        if (why.status && (why.status !== 401 || typeof this.#opts.token !== "function" || this.#renewed)) {
          this.close();
          return this.#tell("error", {status: why.status, message: why.message});
        }
        this.#renewed ||= why.status; // a token that has ended is no refusal if its function has a new one
      }
      this.#moveTo("connecting");
      if (this.#state !== "closed") await this.#pause();
    }
  }

  async #read(endpoint, abort) {
    const {token, stall, value} = this.#opts;
    let heard = Date.now();
    const watch = setInterval(() => { if (Date.now() - heard > stall) abort.abort(); }, stall / 4);
    this.#failures++;
    this.#parts = [];
    try {
      const headers = {Accept: "text/event-stream"};
      const shown = typeof token === "function" ? await token() : token;
      if (shown) headers.Authorization = "Bearer " + shown;
      const url = `${endpoint}/v1/events?${this.#query}&value=${value}&last-event-id=${this.#id}`;
      const response = await fetch(url, {headers, signal: abort.signal, cache: "no-store"});
      if ([400, 401, 403].includes(response.status)) throw refusal(response.status, await response.text());
      if (response.status !== 200) throw new Error("status " + response.status);
      this.#moveTo(this.#id === "0" ? "syncing" : "live");
      const reader = response.body.getReader(), decoder = new TextDecoder();
      const parser = new Parser((...message) => this.#take(...message));
      for (let piece; !(piece = await reader.read()).done; heard = Date.now())
        parser.push(decoder.decode(piece.value, {stream: true}));
    } finally {
      clearInterval(watch);
      abort.abort();
    }
  }

  /* As long as the server asks for, and longer with each failure. Jitter keeps pages from coming back together. */
  #pause() {
    const ms = Math.min(this.#retry * 2 ** this.#failures, Math.max(this.#retry, 30000));
    const {signal} = this.#abort = new AbortController();
    return new Promise(resolve => {
      const timer = setTimeout(resolve, ms * (1 + Math.random() / 2));
      signal.onabort = () => resolve(clearTimeout(timer));
    });
  }

  #take(type, data, id) {
    if (this.#state === "closed") return;
    const message = JSON.parse(data);
    if (type === "retry") return void (this.#retry = message);
    if (type === "denied") throw refusal(401, message.error);
    this.#failures = this.#renewed = 0;
    if (id !== undefined) this.#id = id;
    if (type === "reset") {
      this.#next = new Map();
      this.#parts = [];
      this.#reason = message.reason;
      this.#moveTo("syncing");
    } else if (type === "state")
      for (const event of message.events) this.#next.set(keyOf(event), valueOf(event));
    else if (type === "synced") this.#replace(message);
    else if (type === "message") this.#add(message);
    else if (type === "progress") this.#rev = message.rev;
  }

  #replace({rev}) {
    const next = this.#next, changes = [], reason = this.#reason;
    for (const [key, value] of next)
      if (!this.has(key) || !same(this.get(key), value)) changes.push({op: "put", key, value, old: this.get(key)});
    for (const [key, old] of this)
      if (!next.has(key)) changes.push({op: "delete", key, old});
    this.#next = undefined;
    this.#apply(changes, rev);
    this.#moveTo("live");
    this.#tell("synced", {rev, reason});
    if (changes.length > 0) this.#tell("change", {rev, changes, reason});
  }

  #add({rev, events, more}) {
    for (const event of events) {
      const key = keyOf(event), value = valueOf(event);
      this.#parts.push({op: event.op, key, value, old: this.get(key)});
    }
    if (more) return;
    const changes = this.#parts;
    this.#parts = [];
    this.#apply(changes, rev);
    this.#tell("change", {rev, changes});
  }

  #apply(changes, rev) {
    for (const {op, key, value} of changes) op === "put" ? super.set(key, value) : super.delete(key);
    this.#rev = rev;
  }

  #moveTo(state) {
    if (this.#state === state || this.#state === "closed") return;
    this.#state = state;
    this.#tell("state", {state});
  }

  #tell(type, detail) { this.#bus.dispatchEvent(new CustomEvent(type, {detail})); }
}
