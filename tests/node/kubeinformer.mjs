// kubeinformer: informers of Kubernetes' client-node, unmodified, and what they were given: tests/go/kubeinformer in
// another language, with the same commands and answers.
//
//     node kubeinformer.mjs URL GROUP/VERSION/PLURAL NAMESPACE LABELS FIELDS COUNT      "" for what is not wanted
//
// BELFRY_KUBE_TOKEN: a bearer token; BELFRY_KUBE_CACERT: the file of the authority of an https server's certificate.
// An informer of client-node stops at an error of the connection; its documentation says to start it again, as is done
// here after a second.
import { createHash } from 'node:crypto';
import { createRequire } from 'node:module';
import path from 'node:path';
import readline from 'node:readline';
import { fileURLToPath, pathToFileURL } from 'node:url';

// installed into a folder of its own, which is not this one
const installed = process.env.BELFRY_NODE || path.dirname(fileURLToPath(import.meta.url));
const found = createRequire(path.join(installed, 'kubeinformer.mjs')).resolve('@kubernetes/client-node');
const k8s = await import(pathToFileURL(found));

const RESTART_MS = 1000;
const [server, resource, namespace, labels, fields, count] = process.argv.slice(2);
const [group, version, plural] = resource.split('/');
const { BELFRY_KUBE_TOKEN: token, BELFRY_KUBE_CACERT: cacert } = process.env;
const config = new k8s.KubeConfig();
config.loadFromOptions({
  clusters: [{ name: 'c', server, ...(cacert ? { caFile: cacert } : { skipTLSVerify: true }) }],
  users: [{ name: 'u', ...(token && { token }) }],
  contexts: [{ name: 'x', cluster: 'c', user: 'u' }],
  currentContext: 'x',
});
const api = config.makeApiClient(k8s.CustomObjectsApi);
const informers = [];

const say = (line) => process.stdout.write(`${JSON.stringify(line)}\n`);

const ordered = (value) => {
  if (Array.isArray(value)) return value.map(ordered);
  if (value === null || typeof value !== 'object') return value;
  return Object.fromEntries(Object.keys(value).sort().map((key) => [key, ordered(value[key])]));
};

function hash(object) {
  const bare = structuredClone(object);
  delete bare.kind;
  delete bare.apiVersion;
  delete bare.metadata.resourceVersion;
  delete bare.metadata.managedFields;
  if (!bare.metadata.creationTimestamp) delete bare.metadata.creationTimestamp;
  if (bare.status && Object.keys(bare.status).length === 0) delete bare.status;
  return createHash('sha256').update(JSON.stringify(ordered(bare))).digest('hex').slice(0, 16);
}

const keyOf = (object) => `${object.metadata.namespace ?? ''}/${object.metadata.name}`;

function add(spec) {
  const n = { synced: false, lists: 0, watches: 0, failed: 0, errors: [], bookmarks: 0, added: 0, updated: 0,
    deleted: 0, wrong: [], nWrong: 0, rv: '', objects: 0 };
  const number = informers.length;
  const where = { group, version, plural, ...(spec.labels && { labelSelector: spec.labels }),
    ...(spec.fields && { fieldSelector: spec.fields }) };
  const base = `/apis/${group}/${version}`;
  const list = async () => {
    const got = spec.namespace ? await api.listNamespacedCustomObject({ ...where, namespace: spec.namespace })
      : await api.listCustomObjectForAllNamespaces({ ...where, resourcePlural: plural });
    n.lists += 1;
    if (n.lists === 1) {
      setTimeout(() => { // when the informer has taken it
        n.synced = true;
        say({ kind: 'synced', informer: number });
      });
    }
    return got;
  };
  const at = spec.namespace ? `${base}/namespaces/${spec.namespace}/${plural}` : `${base}/${plural}`;
  // makeInformer() is this without the field selector
  const informer = spec.fields
    ? new k8s.ListWatch(at, new k8s.Watch(config), list, false, spec.labels || undefined, spec.fields)
    : k8s.makeInformer(config, at, list, spec.labels || undefined);
  informer.on('connect', () => { n.watches += 1; });
  informer.on('add', () => { n.added += 1; });
  informer.on('update', () => { n.updated += 1; });
  informer.on('delete', () => { n.deleted += 1; });
  informer.on('error', () => {
    n.failed += 1;
    setTimeout(() => informer.start(), RESTART_MS);
  });
  informers.push({ informer, n });
  informer.start();
}

const commands = {
  status: () => say({ kind: 'status', informers: informers.map(({ informer, n }) => (
    { ...n, rv: informer.latestResourceVersion(), objects: informer.list().length })) }),
  dump: () => {
    informers.forEach(({ informer }, number) => say({ kind: 'store', informer: number,
      objects: Object.fromEntries(informer.list().map((o) => [keyOf(o), [o.metadata.resourceVersion, hash(o)]])) }));
    say({ kind: 'dumped' });
  },
  add: (rest) => {
    const spec = JSON.parse(rest);
    for (let i = 0; i < (spec.count ?? 1); i += 1) add(spec);
    say({ kind: 'added', count: informers.length });
  },
  quit: () => process.exit(0),
};

for (let i = 0; i < Number(count); i += 1) add({ namespace, labels, fields });
readline.createInterface({ input: process.stdin }).on('line', (line) => {
  const [word] = line.split(' ', 1);
  if (commands[word]) commands[word](line.slice(word.length + 1));
  else say({ kind: 'error', message: `no such command: ${word}` });
}).on('close', () => process.exit(0));
