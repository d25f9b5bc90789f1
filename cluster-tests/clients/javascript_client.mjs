// The ecosystem's JavaScript client, unmodified, through what programs do with it.
//
// Wants KUBECONFIG and the package `@kubernetes/client-node`. Each step asserts what it needs; the last line is `done`.

import assert from 'node:assert/strict';
import * as k8s from '@kubernetes/client-node';

const NAMESPACE = 'javascript-client';
const PATH = `/api/v1/namespaces/${NAMESPACE}/configmaps`;
const WAIT_MAX_MS = 20_000;

const config = new k8s.KubeConfig();
config.loadFromDefault();
const core = config.makeApiClient(k8s.CoreV1Api);
const namespace = NAMESPACE;

function configMap(name, labels) {
    return { metadata: { name, labels }, data: { colour: 'red' } };
}

/** Wants the call to fail with an ApiException whose body is a Status with this reason; gives its details. */
async function expectError(code, reason, promise) {
    const error = await promise.then(() => assert.fail(`should fail with ${code} ${reason}`), (error) => error);
    const status = typeof error.body === 'string' ? JSON.parse(error.body) : error.body;
    assert.deepEqual([error.code, status.kind, status.code, status.reason], [code, 'Status', code, reason], error.body);
    return status.details;
}

/** Waits until `holds`, which is looked at after each thing that is told. */
async function until(holds, what) {
    const deadline = Date.now() + WAIT_MAX_MS;
    while (!holds()) {
        assert(Date.now() < deadline, `in vain: ${what()}`);
        await new Promise((resolve) => setTimeout(resolve, 20));
    }
}

async function objects() {
    for (let number = 0; number < 25; number += 1) {
        const name = `m${String(number).padStart(2, '0')}`;
        await core.createNamespacedConfigMap({ namespace, body: configMap(name, { odd: String(number % 2) }) });
    }
    const names = [];
    let _continue;
    do {
        const page = await core.listNamespacedConfigMap({ namespace, limit: 10, _continue, labelSelector: 'odd' });
        names.push(...page.items.map((item) => item.metadata.name));
        _continue = page.metadata._continue;
    } while (_continue);
    assert.equal(names.length, 25);
    const stale = await core.readNamespacedConfigMap({ namespace, name: 'm00' });
    await core.replaceNamespacedConfigMap({ namespace, name: 'm00', body: { ...stale, data: { colour: 'green' } } });
    await expectError(409, 'Conflict', core.replaceNamespacedConfigMap({ namespace, name: 'm00', body: stale }));
    await expectError(409, 'AlreadyExists', core.createNamespacedConfigMap({ namespace, body: configMap('m00') }));
    const missing = await expectError(404, 'NotFound', core.readNamespacedConfigMap({ namespace, name: 'nope' }));
    assert.equal(missing.kind, 'configmaps');
}

async function patches() {
    const patch = (type, name, body, more) => core.patchNamespacedConfigMap(
        { namespace, name, body, ...more }, k8s.setHeaderOptions('Content-Type', type));
    const { JsonPatch, MergePatch, StrategicMergePatch, ServerSideApply } = k8s.PatchStrategy;
    const replaced = await patch(JsonPatch, 'm01', [{ op: 'replace', path: '/data/colour', value: 'json' }]);
    assert.equal(replaced.data.colour, 'json');
    assert.equal((await patch(MergePatch, 'm01', { data: { colour: 'merge' } })).data.colour, 'merge');
    assert.equal((await patch(StrategicMergePatch, 'm01', { data: { colour: 'blue' } })).data.colour, 'blue');
    const applied = (value) => ({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'applied' }, data: { k: value } });
    await patch(ServerSideApply, 'applied', applied('1'), { fieldManager: 'one' });
    const other = { fieldManager: 'two' };
    const conflict = await expectError(409, 'Conflict', patch(ServerSideApply, 'applied', applied('2'), other));
    assert.equal(conflict.causes[0].reason, 'FieldManagerConflict');
    const forced = await patch(ServerSideApply, 'applied', applied('2'), { ...other, force: true });
    assert.equal(forced.data.k, '2');
}

async function watches() {
    const start = (await core.listNamespacedConfigMap({ namespace })).metadata.resourceVersion;
    await core.createNamespacedConfigMap({ namespace, body: configMap('watched') });
    await core.deleteNamespacedConfigMap({ namespace, name: 'watched' });
    const seen = [];
    let ended;
    const query = { resourceVersion: start, timeoutSeconds: 1, allowWatchBookmarks: true };
    const told = (kind, object) => seen.push(`${kind} ${object.metadata.name ?? ''}`.trim());
    await new k8s.Watch(config).watch(PATH, query, told, (error) => { ended = { error }; });
    await until(() => ended, () => seen);
    assert.deepEqual(seen, ['ADDED watched', 'DELETED watched', 'BOOKMARK']);
}

async function informer() {
    const told = [];
    const list = () => core.listNamespacedConfigMap({ namespace, labelSelector: 'odd=1' });
    const running = k8s.makeInformer(config, PATH, list, 'odd=1');
    for (const kind of ['add', 'update', 'delete', 'error']) {
        running.on(kind, (item) => told.push(`${kind} ${item?.metadata?.name ?? item}`));
    }
    await running.start();
    await until(() => told.length === 12, () => told);
    const merge = k8s.setHeaderOptions('Content-Type', k8s.PatchStrategy.MergePatch);
    await core.patchNamespacedConfigMap({ namespace, name: 'm03', body: { data: { colour: 'seen' } } }, merge);
    await core.patchNamespacedConfigMap({ namespace, name: 'm05', body: { metadata: { labels: { odd: '0' } } } }, merge);
    await until(() => told.length === 14, () => told);
    assert.deepEqual(told.slice(12), ['update m03', 'delete m05']);
    assert.equal(running.get('m03', namespace).data.colour, 'seen');
    await running.stop();
}

async function leases() {
    const coordination = config.makeApiClient(k8s.CoordinationV1Api);
    const spec = { holderIdentity: 'one', leaseDurationSeconds: 15, renewTime: new k8s.V1MicroTime() };
    const lease = await coordination.createNamespacedLease({ namespace, body: { metadata: { name: 'leader' }, spec } });
    const claim = (holderIdentity) => coordination.replaceNamespacedLease(
        { namespace, name: 'leader', body: { ...lease, spec: { ...lease.spec, holderIdentity } } });
    const claims = await Promise.allSettled([claim('two'), claim('three')]);
    assert.deepEqual(claims.map((claim) => claim.status).sort(), ['fulfilled', 'rejected'], 'one of two wins');
}

async function collections() {
    await core.deleteCollectionNamespacedConfigMap({ namespace, labelSelector: 'odd=0', dryRun: 'All' });
    assert.equal((await core.listNamespacedConfigMap({ namespace, labelSelector: 'odd=0' })).items.length, 14);
    await core.deleteCollectionNamespacedConfigMap({ namespace });
    const left = (await core.listNamespacedConfigMap({ namespace })).items.map((item) => item.metadata.name);
    assert.deepEqual(left.filter((name) => !name.endsWith('root-ca.crt')), []);
}

await core.createNamespace({ body: { metadata: { name: NAMESPACE } } });
for (const step of [objects, patches, watches, informer, leases, collections]) {
    const started = Date.now();
    await step();
    console.log(`${step.name}: ${(Date.now() - started) / 1000} s`);
}
console.log('done');
process.exit(0);
