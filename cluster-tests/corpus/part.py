#!/usr/bin/env python3
"""Make scenarios of a part of the corpus of public definitions: part.py CORPUS OUTDIR [BYTES]

The corpus (README.md) has files of other projects and what the reference answered. A scenario has the definitions and samples of one
project with those answers, in the form of the recorded scenarios (../vectors). Projects come by size, the smallest first, until
OUTDIR has BYTES. Answers that the corpus keeps as hashes are left out. Needs PyYAML.
"""
import copy, json, os, re, sys, urllib.parse

ROOT, OUT = sys.argv[1], sys.argv[2]
BYTES = int(sys.argv[3]) if len(sys.argv) > 3 else 1_800_000
sys.path.insert(0, ROOT)
import corpus  # noqa: E402, the corpus's own reader of its files

CRDS = corpus.CRDS
LICENCES = {'Apache-2.0', 'MIT', 'BSD-3-Clause'}
TABLE = {'Accept': 'application/json;as=Table;v=v1;g=meta.k8s.io'}
APPLY = {'Content-Type': 'application/apply-patch+yaml'}
MERGE = {'Content-Type': 'application/merge-patch+json'}
UID = re.compile(r'"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"')
OMIT = ['managedFields', 'storageVersionHash']


def hashed(value):
    return bool(re.search(r'<[^>]*sha256 |<dump>|<error>|<pointer>|characters, sha256', json.dumps(value)))


def applied(document, changes):
    """`document` with the corpus's differences."""
    out = {'': copy.deepcopy(document)}
    for change, value in changes.items():
        steps = [s.replace('~1', '/').replace('~0', '~') for s in change[1:].split('/')]
        at = out
        for step in steps[:-1]:
            at = at[int(step) if isinstance(at, list) else step]
        last = int(steps[-1]) if isinstance(at, list) else steps[-1]
        if change[0] == '-':
            del at[last]
        else:
            at[last] = copy.deepcopy(value)
    return out['']


def shown(document, answer):
    """The body of an answer: the stored object, with what differs from run to run."""
    body = corpus.canon(applied(document, answer['stored']))
    body['metadata'].update(uid='<uid>', resourceVersion='<rv>', creationTimestamp='<time>')
    return json.loads(UID.sub('"<uid>"', json.dumps(body)))


def warnings(answer):
    told = [re.sub(r'(["\\])', r'\\\1', w) for w in answer.get('warnings', [])]
    return {'headers': {'Warning': sorted('299 - "%s"' % w for w in told)}} if told else {}


def success(answer, body):
    return dict(status=answer['code'], contentType='application/json', body=body, **warnings(answer))


def step(method, path, body=None, **more):
    made = {'do': '%s %s' % (method, path), 'omit': OMIT}
    if body is not None:
        made['body'] = body
    made.update(more)
    return made


def refusal(made, answer):
    """`made`, with the expectation of a refusal."""
    body = {'code': answer['code'], 'reason': answer.get('reason')}
    made['pick'] = ['code', 'reason']
    if 'causes' in answer:
        made['pick'].append('details.causes')
        causes = [dict(zip(('reason', 'field', 'message'), cause.split('|', 2))) for cause in answer['causes']]
        causes = [{k: v for k, v in (('reason', c['reason']), ('message', c['message']), ('field', c['field'])) if v} for c in causes]
        # The corpus sorts them.
        body['details.causes'] = causes if len(causes) < 2 else {'$unordered': causes}
    elif not re.search(r'strict decoding|unmarshal|cannot convert', answer.get('message', '')):
        made['pick'].append('message')
        body['message'] = answer.get('message')
    made['expect'] = dict(status=answer['code'], contentType='application/json', body=body, **warnings(answer))
    return made


class Project:
    def __init__(self, files, name, answers):
        self.files, self.name, self.answers = files, name, answers
        self.steps, self.namespaces = [], set()

    def judge(self, made, answer, expect):
        """Adds a request with what is expected, if the corpus has its answer."""
        if answer is None or hashed(answer):
            self.steps.append(dict(made, setup=True))
        elif answer['code'] < 300:
            self.steps.append(dict(made, expect=expect(answer)))
        else:
            self.steps.append(refusal(made, answer))

    def definitions(self):
        found, seen = [], set()
        for row in self.files.rows(self.name, 'crd'):
            for ident, doc in self.files.docs(row):
                name = corpus.meta(doc).get('name')
                if doc.get('kind') == 'CustomResourceDefinition' and doc['apiVersion'].endswith('/v1') and name not in seen:
                    seen.add(name)
                    found.append((ident, doc))
        return found

    def run(self):
        accepted = []
        for ident, doc in self.definitions():
            of = self.answers.get(ident, {})
            answer = of.get('crd.create')
            if answer is None:
                return False
            judged = dict(pick=['metadata.name', 'spec.names.kind'])
            wanted = {'metadata.name': corpus.meta(doc)['name'], 'spec.names.kind': doc['spec']['names'].get('kind')}
            self.judge(step('POST', CRDS, doc, **judged), answer, lambda a: success(a, wanted))
            if answer['code'] == 201:
                accepted.append((ident, doc))
        for ident, doc in accepted:
            status = self.answers[ident]['crd.status']
            name = corpus.meta(doc)['name']
            is_in_force = any(c.startswith('Established=True') for c in status['conditions'])
            until = 'Established' if is_in_force else 'NamesAccepted'
            path = 'status.conditions[type=%s].status' % until
            wanted = {'status.acceptedNames': status['acceptedNames'], 'status.storedVersions': status['storedVersions'],
                      path: 'True' if is_in_force else 'False'}
            self.steps.append(step('GET', CRDS + '/' + name, pick=list(wanted), until={'body.' + path: wanted[path]},
                                   expect=success({'code': 200}, wanted)))
            if is_in_force:
                self.describe(doc)
        for row in self.files.rows(self.name, 'sample', 'invalid'):
            if not (row['kind'] == 'invalid' and row['note'].startswith('test suite')):
                for ident, doc in self.files.docs(row):
                    if 'sample.create' in self.answers.get(ident, {}):
                        self.sample(ident, doc, [d for _, d in accepted])
        for _, doc in accepted:
            self.steps.append(step('DELETE', CRDS + '/' + corpus.meta(doc)['name'], setup=True))
        return True

    def describe(self, doc):
        spec = doc['spec']
        for version in (v for v in spec['versions'] if v.get('served')):
            gv = '%s/%s' % (spec['group'], version['name'])
            plural, kind = spec['names']['plural'], spec['names']['kind']
            self.steps.append(step('GET', '/apis/%s/%s?limit=1' % (gv, plural), until={'status': 200}, setup=True))
            columns = self.answers.get('%s %s' % (gv, kind), {}).get('table.columns')
            if isinstance(columns, list):
                want = [dict(name=c[0], type=c[1], format=c[2], priority=c[3]) for c in columns]
                self.steps.append(step('GET', '/apis/%s/%s?limit=1' % (gv, plural), headers=TABLE, pick='columnDefinitions', omit=['description'],
                                       expect=dict(status=200, contentType='application/json', body=want)))
            of = self.answers.get(gv, {})
            for entry in of.get('discovery') or []:
                if entry['name'].split('/')[0] == plural:
                    path = 'resources[name=%s]' % entry['name']
                    self.steps.append(step('GET', '/apis/' + gv, pick=path, until={'body.%s.name' % path: entry['name']},
                                           expect=success({'code': 200}, entry)))
            properties = (of.get('openapi.names') or {}).get('properties', {}).get(kind)
            if properties and all(spec['group'] != d['spec']['group'] or d is doc for _, d in self.definitions()):
                name, names = properties
                base = "components.schemas['%s']" % name
                picks = ['%s.x-kubernetes-group-version-kind.0.kind' % base]
                self.steps.append(step('GET', '/openapi/v3/apis/' + gv, pick=picks, expect=success({'code': 200}, {picks[0]: kind})))

    def sample(self, ident, doc, accepted):
        checks = self.answers[ident]
        gv, kind = doc['apiVersion'], doc['kind']
        found = [d['spec'] for d in accepted if d['spec']['group'] == gv.split('/')[0] and d['spec']['names']['kind'] == kind]
        if not found:
            return
        spec, doc = found[0], corpus.clean_input(doc)
        m = corpus.meta(doc)
        if 'generateName' in m or not isinstance(m.get('name'), str) or not isinstance(m.get('namespace', ''), str):
            return
        base = '/apis/%s/' % gv
        if spec['scope'] == 'Namespaced':
            namespace = m.get('namespace') or corpus.NS
            if namespace not in self.namespaces:
                self.namespaces.add(namespace)
                self.steps.append(step('POST', '/api/v1/namespaces', {'metadata': {'name': namespace}}, setup=True))
            base += 'namespaces/%s/' % urllib.parse.quote(namespace, safe='')
        base += spec['names']['plural']
        made = checks['sample.create']
        create = step('POST', base + '?fieldManager=c&fieldValidation=Strict', doc, save={'rv': 'metadata.resourceVersion'})
        self.judge(create, made, lambda a: success(a, shown(doc, a)))
        if made['code'] != 201 or hashed(made):
            if made['code'] == 201:
                self.steps.append(step('DELETE', base + '/' + urllib.parse.quote(m['name'], safe=''), setup=True))
            return
        self.stored(checks, base, doc, corpus.canon(applied(doc, made['stored'])), spec)

    def stored(self, checks, base, doc, stored, spec):
        url = base + '/' + urllib.parse.quote(doc['metadata']['name'], safe='')
        table = checks.get('sample.table')
        if isinstance(table, list) and table and not hashed(table):
            cells = ['<time>' if c == '<created>' else c for c in table[0]]
            self.steps.append(step('GET', url, headers=TABLE, pick='rows.0.cells', expect=dict(status=200, contentType='application/json', body=cells)))
        for check in (c for c in checks if c.startswith('sample.get ')):
            version = check.split(' ')[1]
            other = url.replace('/apis/%s/' % doc['apiVersion'], '/apis/%s/%s/' % (spec['group'], version), 1)
            if checks[check]['code'] == 200:
                self.judge(step('GET', other), checks[check], lambda a: success(a, shown(stored, a)))
        answer = checks.get('sample.update')
        if answer and answer['code'] == 200 and not hashed(answer):
            new = copy.deepcopy(stored)
            new['metadata'].setdefault('labels', {})
            new['metadata']['labels'] = dict(new['metadata']['labels'] or {}, **{'corpus.example.com/changed': 'yes'})
            new['metadata']['resourceVersion'] = '${rv}'
            self.judge(step('PUT', url + '?fieldManager=c', new), answer, lambda a: success(a, shown(stored, a)))
            stored = corpus.canon(applied(stored, answer['stored']))
            answer = checks.get('sample.apply')
            if answer and not hashed(answer):
                self.judge(step('PATCH', url + '?fieldManager=x', doc, headers=APPLY), answer, lambda a: success(a, shown(stored, a)))
                if answer['code'] in (200, 201):
                    stored = corpus.canon(applied(stored, answer['stored']))
                bad = checks.get('sample.bad-patch')
                if bad and bad['code'] >= 400 and not hashed(bad):
                    self.judge(step('PATCH', url + '?fieldManager=c', bad['patch'], headers=MERGE), bad, None)
                    scale = checks.get('sample.scale')
                    if scale and not hashed(scale):
                        self.judge(step('GET', url + '/scale'), scale, lambda a: success(a, self.scale(a)))
        answer = checks.get('sample.delete')
        if answer and answer['code'] == 200:
            self.steps.append(step('DELETE', url, pick='kind', expect=success(answer, answer['kind'])))

    @staticmethod
    def scale(answer):
        body = copy.deepcopy(answer['stored'])
        body['metadata'].update(uid='<uid>', resourceVersion='<rv>', creationTimestamp='<time>')
        return body


def has_names(steps):
    """Whether the files themselves hold what a replayer takes for the name of a saved value."""
    saved = {name for s in steps for name in s.get('save', {})}
    return not set(re.findall(r'\$\{([^}]*)\}', json.dumps(steps))) <= saved


def is_warned_of(steps):
    """Whether a version is deprecated: the corpus does not keep the warnings of reads."""
    bodies = [s.get('body') for s in steps if s['do'].endswith('/customresourcedefinitions')]
    return any(v.get('deprecated') for b in bodies if b for v in b['spec'].get('versions') or [])


def main():
    files, made = corpus.Corpus(ROOT), []
    weight = lambda name: sum(int(row['bytes']) for row in files.rows(name, 'crd', 'sample', 'invalid'))
    seen = 0
    for name in sorted(files.projects, key=weight):
        # Scenarios repeat samples in their answers, so that they are larger than their sources: later projects cannot come in.
        seen += weight(name)
        if seen > BYTES:
            break
        path = os.path.join(ROOT, 'expected', name + '.json')
        rows = files.rows(name, 'crd', 'sample', 'invalid')
        if os.path.exists(path) and files.rows(name, 'crd') and all(r['licence'] in LICENCES for r in rows):
            project = Project(files, name, corpus.read(path)[1])
            if project.run() and not has_names(project.steps) and not is_warned_of(project.steps):
                made.append(project)
    size = lambda p: len(json.dumps(p.steps, ensure_ascii=False))
    total, kept = 0, []
    for project in sorted(made, key=size):
        total += size(project)
        if total > BYTES:
            break
        kept.append(project)
    os.makedirs(OUT, exist_ok=True)
    scenarios = [{'area': 'corpus', 'name': p.name, 'steps': p.steps} for p in sorted(kept, key=lambda p: p.name)]
    with open(os.path.join(OUT, 'corpus.json'), 'w', encoding='utf-8') as f:
        json.dump(scenarios, f, ensure_ascii=False, separators=(',', ':'))
        f.write('\n')
    names = {p.name for p in kept}
    with open(os.path.join(OUT, 'SOURCES.tsv'), 'w', encoding='utf-8') as f:
        print('project\trepository\tpath\tcommit\tlicence', file=f)
        for name in sorted(names):
            for r in files.rows(name, 'crd', 'sample', 'invalid'):
                print('\t'.join((name, r['repo'], r['path'], r['commit'], r['licence'])), file=f)
    judged = sum('expect' in s for p in kept for s in p.steps)
    print('%d projects, %d judged steps, %d bytes' % (len(kept), judged, os.path.getsize(os.path.join(OUT, 'corpus.json'))))


main()
