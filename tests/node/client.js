// What npm's etcd3 does, one thing after another, through the endpoint given. Prints one line for each; ends with 0 when all
// hold.
//
//     node client.js HOST:PORT
'use strict';
const assert = require('node:assert');
const { createRequire } = require('node:module');
const path = require('node:path');

// installed into a folder of its own, which is not this one
const { Etcd3 } = createRequire(path.join(process.env.BELFRY_NODE || __dirname, 'client.js'))('etcd3');

const client = new Etcd3({ hosts: `http://${process.argv[2]}` });
const ns = client.namespace('/node/');

function once(emitter, name) {
  return new Promise((resolve, reject) => {
    emitter.once(name, resolve);
    emitter.once('error', reject);
  });
}

async function keys() {
  await ns.put('a').value('1');
  assert.strictEqual(await ns.get('a').string(), '1');
  await ns.put('b').value('2');
  assert.deepStrictEqual(await ns.getAll().prefix('').strings(), { a: '1', b: '2' });
  const done = await ns.if('a', 'Value', '==', '1').then(ns.put('a').value('3')).else(ns.get('a')).commit();
  assert.strictEqual(done.succeeded, true);
  assert.strictEqual((await ns.delete().key('b')).deleted, '1');
  assert.strictEqual(await ns.get('b'), null);
}

async function watch() {
  const watcher = await ns.watch().prefix('w/').withPreviousKV().create();
  const seen = [];
  const all = new Promise((resolve) => {
    const note = (what) => (kv, previous) => {
      seen.push([what, kv.key.toString(), kv.value.toString(), previous ? previous.value.toString() : null]);
      if (seen.length === 3) resolve();
    };
    watcher.on('put', note('put'));
    watcher.on('delete', note('delete'));
  });
  await ns.put('w/a').value('1');
  await ns.put('w/a').value('2');
  await ns.delete().key('w/a');
  await all;
  assert.deepStrictEqual(seen, [['put', 'w/a', '1', null], ['put', 'w/a', '2', '1'], ['delete', 'w/a', '', '2']]);
  await watcher.cancel();
}

async function watchFromThePast() {
  const first = await ns.put('p').value('1');
  await ns.put('p').value('2');
  const watcher = await ns.watch().key('p').startRevision(first.header.revision).create();
  const values = [];
  await new Promise((resolve, reject) => {
    watcher.on('error', reject);
    watcher.on('put', (kv) => values.push(kv.value.toString()) === 2 && resolve());
  });
  assert.deepStrictEqual(values, ['1', '2']);
  await watcher.cancel();
}

async function leases() {
  const lease = client.lease(5);
  const key = '/node/leased';
  await lease.put(key).value('here');
  assert.strictEqual(await client.get(key).string(), 'here');
  await lease.keepaliveOnce();
  const watcher = await client.watch().key(key).create();
  const gone = once(watcher, 'delete');
  await lease.revoke();
  await gone;
  assert.strictEqual(await client.get(key), null);
  await watcher.cancel();
}

async function locks() {
  let inside = 0;
  let counted = 0;
  const turn = async () => {
    for (;;) {
      try {
        return await ns.lock('lock').ttl(5).do(async () => {
          assert.strictEqual(++inside, 1);
          await new Promise((resolve) => setTimeout(resolve, 10));
          inside--;
          counted++;
        });
      } catch (e) {
        if (e.constructor.name !== 'EtcdLockFailedError') throw e;
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
    }
  };
  await Promise.all([turn(), turn(), turn()]);
  assert.strictEqual(counted, 3);
}

async function elections() {
  const election = ns.election('leader', 5);
  const observer = await election.observe();
  const seen = [];
  observer.on('change', (leader) => seen.push(leader));
  for (const name of ['one', 'two']) {
    const campaign = election.campaign(name);
    await once(campaign, 'elected');
    while (seen[seen.length - 1] !== name) await new Promise((resolve) => setTimeout(resolve, 10));
    assert.strictEqual(await election.leader(), name);
    await campaign.resign();
  }
  await observer.cancel();
}

async function cluster() {
  assert.strictEqual((await client.cluster.memberList({})).members.length, 1);
  assert.match((await client.maintenance.status()).version, /^3\./);
}

async function main() {
  for (const part of [keys, watch, watchFromThePast, leases, locks, elections, cluster]) {
    await part();
    console.log(`${part.name} ok`);
  }
  client.close();
  console.log('all ok');
}

main().then(() => process.exit(0), (e) => {
  console.error(e);
  process.exit(1);
});
