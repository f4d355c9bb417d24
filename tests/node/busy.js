// A busy program on npm's etcd3, for as many seconds as given, through the endpoint given: reads, writes, watches that come
// and go, and a lease that is kept. Prints what it did; ends with 1 when anything failed.
//
//     node busy.js HOST:PORT SECONDS
'use strict';
const { createRequire } = require('node:module');
const path = require('node:path');

// installed into a folder of its own, which is not this one
const { Etcd3 } = createRequire(path.join(process.env.BELFRY_NODE || __dirname, 'busy.js'))('etcd3');

const end = Date.now() + 1000 * Number(process.argv[3]);
const client = new Etcd3({ hosts: `http://${process.argv[2]}` });
const done = { reads: 0, puts: 0, watches: 0, events: 0 };
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function read() {
  while (Date.now() < end) {
    await client.get('/node-busy/0').string();
    done.reads++;
    await pause(2);
  }
}

async function put() {
  const value = 'x'.repeat(16384);
  while (Date.now() < end) {
    await client.put(`/node-busy/${done.puts % 4}`).value(value);
    done.puts++;
    await pause(20);
  }
}

async function watch(number) {
  for (let n = 0; Date.now() < end; n++) {
    const watcher = await client.watch().prefix('/node-busy/').create();
    watcher.on('put', () => done.events++);
    await pause(10 + ((number * 37 + n * 13) % 200));
    await watcher.cancel();
    done.watches++;
  }
}

async function keep() {
  const lease = client.lease(3);
  await lease.grant();
  let lost = null;
  lease.on('lost', (e) => { lost = e; });
  while (Date.now() < end && lost === null) await pause(50);
  if (lost !== null) throw lost;
  await lease.revoke();
}

Promise.all([read(), read(), put(), keep(), ...[0, 1, 2, 3, 4].map(watch)]).then(() => {
  client.close();
  console.log(Object.entries(done).map(([name, n]) => `${name}=${n}`).join(' '));
  process.exit(0);
}, (e) => {
  console.error(e);
  process.exit(1);
});
